"""Money after the fact: bills taken into the ledger, computed and billed compared, charges that don't fit.

Everything but `markets` is pure: receipts and bills in, decisions and words out. Dollars are `Decimal` all
the way; seconds are floats.
"""
