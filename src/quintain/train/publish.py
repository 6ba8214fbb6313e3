"""New weights for a server that samples: pause, reload, resume, in vLLM's words.

vLLM needs `VLLM_SERVER_DEV_MODE=1` and reads the folder itself, so it must see the same files; `serve.ModelServer`
understands the same calls. Between pause and resume nothing is sampled, so each reply has weights of one version.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import httpx

from quintain.types import FaultKind, HouseError


class ServedWeights:
    """`publish` a folder of safetensors to the server at `url` (`http://host:8000`, without `/v1`)."""

    def __init__(self, url: str, *, timeout_seconds: float = 600.0) -> None:
        self._url = url.rstrip("/")
        self._client = httpx.AsyncClient(timeout=timeout_seconds)

    async def publish(self, folder: Path, version: str) -> None:
        """Let the server sample from the weights in `folder` from now on, under this version. It is resumed whatever
        happens. Raises HouseError(POLICY_UNREACHABLE), with the call and what the server said."""
        await self._post("/pause", params={"mode": "wait"})
        try:
            await self._post("/collective_rpc", json={
                "method": "reload_weights", "kwargs": {"weights_path": _absolute(folder)}})
            await self._post("/reset_prefix_cache")  # what is kept there was computed with the old weights
            await self._post("/update_weight_version", json={"new_version": version}, optional=True)
        finally:
            await self._post("/resume")

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _post(
        self, path: str, *, params: Mapping[str, str] | None = None, json: object = None, optional: bool = False,
    ) -> None:
        try:
            response = await self._client.post(self._url + path, params=params, json=json)
        except httpx.HTTPError as error:
            raise HouseError(
                FaultKind.POLICY_UNREACHABLE, f"{self._url}{path}: {type(error).__name__}: {error}") from error
        if response.is_success or (optional and response.status_code == 404):
            return
        raise HouseError(FaultKind.POLICY_UNREACHABLE,
                         f"{self._url}{path}: status {response.status_code}, it said {response.text[:300]!r}")


def _absolute(folder: Path) -> str:
    return str(folder.resolve())
