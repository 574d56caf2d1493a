"""Plugins: found, checked, loaded one by one, and called through handles that name who failed."""
