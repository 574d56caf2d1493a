"""Frozen, keyword-only value classes; they import nothing of gipper but each other."""
