"""E2B's HTTP interface over our sandboxes, for whoever has its SDK already. Written against e2b 2.63 (envd 0.5.7)."""

from quintain.bridges.e2b.face import E2bFace

__all__ = ["E2bFace"]
