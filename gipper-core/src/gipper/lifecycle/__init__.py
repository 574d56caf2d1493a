"""One run: rent, wait, send, start, follow, collect, end, prove; and the reaper that does it later."""
