"""Root file systems for sandboxes, by name."""

from quintain.sandbox.image.build import Ran
from quintain.sandbox.image.store import Images, default_cache
from quintain.sandbox.image.words import HOST, Image, ImageError

__all__ = ["HOST", "Image", "ImageError", "Images", "Ran", "default_cache"]
