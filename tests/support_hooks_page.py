"""Makes docs/hooks.md from the hooks' own docstrings: `python tests/support_hooks_page.py > docs/hooks.md`."""

from __future__ import annotations

import inspect
import textwrap

from gipper import hookspecs
from gipper.plugins import hooks

HEAD = """# Hooks

Made from the docstrings of `gipper/hookspecs.py`; a test keeps the two equal. A plugin marks its implementations
with `gipper.api.hookimpl` and names only the arguments that it uses, as plain positional ones.

- A **verb** belongs to a provider's class, in the entry-point group `gipper.providers`. Each provider has a hook
  manager of its own: no call ever reaches another provider's verb. The first answer counts, and it is checked.
- A **collect** hook asks every plugin that implements it: a provider's class for its own offers and machines, the
  modules in the entry-point group `gipper.plugins`, and, where it says so, a [job's own hooks](job-hooks.md).
- Anything else that a plugin raises than the errors named here is told with the plugin's name and version.
"""
JOB_HOOKS = frozenset({
    "gipper_exclude_offers", "gipper_adjust_costs", "gipper_preflight", "gipper_classify_upload",
    "gipper_receipt_written",
})  # fmt: skip


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *map(_section, hooks.hook_arguments())])


def _section(name: str) -> str:
    spec = getattr(hookspecs, name)
    returns = str(inspect.signature(spec).return_annotation)
    text = textwrap.dedent(inspect.getdoc(spec) or "")
    return f"## {name}\n\n`{name}{_arguments(name)} -> {returns}`\n\n{_kind(name)}\n\n{text}\n"


def _arguments(name: str) -> str:
    return f"({', '.join(hooks.hook_arguments()[name])})"


def _kind(name: str) -> str:
    if name in hooks.VERBS:
        need = "required" if name in hooks.REQUIRED else "optional"
        wrapped = "others may wrap it" if name in hooks.WRAPPABLE else "runs without wrappers"
        return f"*Verb, {need}; {wrapped}.*"
    where = "only from `gipper.plugins`" if name == hooks.COMMANDS else "collect"
    return f"*{where[0].upper()}{where[1:]}; {'also' if name in JOB_HOOKS else 'not'} in a job's own hooks.*"


if __name__ == "__main__":
    print(page(), end="")
