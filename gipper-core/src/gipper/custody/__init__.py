"""Custody: what of ours was on which rented machine, from when to when, and what nobody can vouch for."""
