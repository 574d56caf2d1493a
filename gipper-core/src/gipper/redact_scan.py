"""Does a key's value occur in this? For whole inputs, at the speed of `bytes.find`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gipper.redact_forms import long_enough, scan_forms


class KeyScanner:
    """Looks for the values of keys in data that arrives in chunks.

    Found are a value's plain, quoted, escaped, URL-encoded and base64 forms, also across the borders of
    chunks and where line ends break them (base64 is wrapped at 76). Values under 8 characters are not
    looked for. One scanner for one piece of data: for the next file take a `fresh` one (making one from
    values takes far longer), or call `reset`.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._forms = {name: tuple(sorted(scan_forms(v))) for name, v in values.items() if long_enough(v)}
        self._longest = max((len(f) for fs in self._forms.values() for f in fs), default=1)
        self._tail = b""
        self._found: set[str] = set()

    def __repr__(self) -> str:
        return f"KeyScanner({', '.join(self._forms)})"

    @property
    def found(self) -> frozenset[str]:
        """Names of the keys seen since the last `reset`."""
        return frozenset(self._found)

    def feed(self, chunk: bytes) -> None:
        """Look at the next chunk."""
        if len(self._found) == len(self._forms):
            return
        # Nearly free, and it joins what a line break parts.
        data = self._tail + chunk.translate(None, b"\r\n")
        for name, needles in self._forms.items():
            if name not in self._found and any(needle in data for needle in needles):
                self._found.add(name)
        self._tail = data[-(self._longest - 1) :] if self._longest > 1 else b""

    def fresh(self) -> KeyScanner:
        """A scanner for the same keys that has seen nothing; cheap, and safe to use beside this one."""
        other = KeyScanner({})
        other._forms, other._longest = self._forms, self._longest
        return other

    def reset(self) -> None:
        """Begin with another piece of data."""
        self._tail = b""
        self._found = set()


def key_finder(values: Mapping[str, str]) -> Callable[[str], str | None]:
    """A function that names the key whose value occurs in a text, or answers None."""

    def find(text: str) -> str | None:
        scanner = KeyScanner(values)
        scanner.feed(text.encode("utf-8", "surrogatepass"))
        return min(scanner.found, default=None)

    return find
