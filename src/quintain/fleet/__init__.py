"""Many episodes at once: who is next, who holds what, and what becomes of it when something dies."""

from quintain.fleet._card import Card, Count, Full, Gone, Lease, Place, Terms
from quintain.fleet._shelf import Shelf

__all__ = ["Card", "Count", "Full", "Gone", "Lease", "Place", "Shelf", "Terms"]
