"""A model server in vLLM's words, with token ids, that answers or fails as the model's name says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

WORDS = ("The", " answer", " is", " 42", ".")
ARGUMENTS = ('{"city"', ': "Oslo"', "}")


class ScriptedModel:
    """`asked` are the bodies that came, `sampled` the (prompt, output, log-probabilities) of each reply that was begun,
    `hung_up` counts streams that nobody read to their end. With tools it calls the first one, once; with `arguments` as
    often as there are of them, each with its own."""

    def __init__(self, arguments: tuple[str, ...] = ()) -> None:
        self._arguments = arguments
        self.asked: list[dict[str, Any]] = []
        self.sampled: list[tuple[list[int], list[int], list[float]]] = []
        self.hung_up = 0
        self.go_on = asyncio.Event()
        self.app = Starlette(routes=[Route("/v1/chat/completions", self._chat, methods=["POST"])])

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        match body["model"]:
            case "busy":
                return JSONResponse({"error": {"message": "too many"}}, 429, {"retry-after": "7"})
            case "broken":
                return Response(b"<html>oops</html>", 500)
            case "absent":
                return JSONResponse({"error": {"message": "no model absent", "code": 404}}, 404)
            case "small":
                return JSONResponse({"error": {"message": "This model's maximum context length is 8"}}, 400)
            case "slow":
                await asyncio.sleep(30)
        nth = len(self.sampled)
        calls = bool(body.get("tools")) and (
            nth < len(self._arguments) if self._arguments else body["messages"][-1]["role"] != "tool")
        parts = WORDS if not calls else pieces(self._arguments[nth]) if self._arguments else ARGUMENTS
        prompt = [1000 + len(message.get("content") or "") for message in body["messages"]]
        ids, logprobs = [100 * nth + k for k in range(len(parts))], [-0.25 * k for k in range(len(parts))]
        self.sampled.append((prompt, ids, logprobs))
        name = body["tools"][0]["function"]["name"] if calls else ""
        if body.get("stream"):
            return StreamingResponse(self._chunks(body, prompt, ids, parts, name), media_type="text/event-stream")
        call = [{"id": f"call_{nth}", "type": "function", "function": {"name": name, "arguments": "".join(parts)}}]
        message: dict[str, Any] = {"role": "assistant", "content": None if calls else "".join(parts)}
        choice = {"index": 0, "message": {**message, **({"tool_calls": call} if calls else {})}, "token_ids": ids,
                  "finish_reason": "tool_calls" if calls else "stop", "logprobs": scores(logprobs)}
        return JSONResponse({"id": "c", "object": "chat.completion", "created": 1, "model": body["model"],
                             "choices": [choice], "prompt_token_ids": prompt, "usage": usage(prompt, ids)})

    async def _chunks(
        self, body: dict[str, Any], prompt: list[int], ids: list[int], parts: tuple[str, ...], name: str,
    ) -> AsyncIterator[bytes]:
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

        def event(delta: dict[str, Any], finish: str | None = None, **more: object) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            top = {"prompt_token_ids": more.pop("prompt")} if "prompt" in more else {}
            return b"data: " + json.dumps({**head, **top, "choices": [{**choice, **more}]}).encode() + b"\n\n"

        whole = False
        try:
            yield event({"role": "assistant", "content": ""}, prompt=prompt)
            for k, part in enumerate(parts):
                begun = {"id": f"call_{ids[0] // 100}", "type": "function"} if not k else {}
                function = {"arguments": part, **({"name": name} if not k else {})}
                delta = {"tool_calls": [{"index": 0, **begun, "function": function}]} if name else {"content": part}
                yield event(delta, token_ids=[ids[k]], logprobs=scores([-0.25 * k]))
                if k == 1 and body["model"] == "dropping":
                    raise ConnectionError("the line drops")
                if k == 1 and body["model"] == "waiting":
                    await self.go_on.wait()
            yield event({}, "tool_calls" if name else "stop")
            if (body.get("stream_options") or {}).get("include_usage"):
                yield b"data: " + json.dumps({**head, "choices": [], "usage": usage(prompt, ids)}).encode() + b"\n\n"
            yield b"data: [DONE]\n\n"
            whole = True
        finally:
            self.hung_up += not whole


def pieces(text: str) -> tuple[str, ...]:
    return text[:4], text[4:9], text[9:]


def scores(values: list[float]) -> dict[str, object]:
    return {"content": [{"token": "t", "logprob": value, "bytes": None, "top_logprobs": []} for value in values]}


def usage(prompt: list[int], ids: list[int]) -> dict[str, int]:
    return {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
