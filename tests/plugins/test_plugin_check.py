from __future__ import annotations

from types import ModuleType

import attrs
import pytest

from gipper.api import Listing, Machine, ProviderInfo, hookimpl
from gipper.plugins.check import check_module, check_provider
from gipper.plugins.hooks import REQUIRED, VERBS, hook_arguments
from gipper.plugins.parts import Origin

ORIGIN = Origin(entry="acme", distribution="gipper-acme", version="1.2")


def problems(source: str) -> list[tuple[str | None, str]]:
    """The (hook, cause) pairs of the class `P` in `source`."""
    space: dict[str, object] = {}
    exec(compile(source, "fake", "exec", dont_inherit=True), space)
    return [(p.hook, p.cause) for p in check_provider(space["P"], ORIGIN).problems]


def one_problem(source: str) -> tuple[str | None, str]:
    (only,) = problems(source)
    return only


def test_good_class_has_no_problem(provider_source):
    """A plain class with the six required hooks passes, and its hooks are known."""
    space: dict[str, object] = {}
    exec(provider_source(), space)
    checked = check_provider(space["P"], ORIGIN)
    assert checked.problems == ()
    assert checked.hooks == set(REQUIRED)
    assert checked.info.name == "acme"


def test_class_is_checked_unbuilt(provider_source):
    """Checking a class doesn't build it and evaluates no property."""
    extra = (
        "    def __init__(self): raise AssertionError('built')\n"
        "    @property\n    def state(self): raise AssertionError('evaluated')\n"
    )
    assert problems(provider_source(extra=extra)) == []


VERB_FAULTS = {
    "misspelt": ("    @hookimpl\n    def gipper_descripe(self, machine_id): return None\n",
                 [("gipper_descripe", "there is no hook gipper_descripe; did you mean gipper_describe?"),
                  ("gipper_describe", "lacks it")]),
    "unknown argument": ("    @hookimpl\n    def gipper_describe(self, machine): return None\n",
                         [("gipper_describe", "no argument 'machine'; did you mean machine_id?")]),
    "keyword-only": ("    @hookimpl\n    def gipper_describe(self, *, machine_id): return None\n",
                     [("gipper_describe", "keyword-only")]),
    "default": ("    @hookimpl\n    def gipper_describe(self, machine_id=None): return None\n",
                [("gipper_describe", "'machine_id' has a default")]),
    "*args": ("    @hookimpl\n    def gipper_describe(self, *args): return None\n",
              [("gipper_describe", "*args")]),
    "**kwargs": ("    @hookimpl\n    def gipper_describe(self, **kw): return None\n",
                 [("gipper_describe", "**kwargs")]),
    "no self": ("    @hookimpl\n    def gipper_describe(): return None\n",
                [("gipper_describe", "lacks self")]),
    "generator": ("    @hookimpl\n    def gipper_describe(self, machine_id): yield None\n",
                  [("gipper_describe", "it is a generator")]),
    "async": ("    @hookimpl\n    async def gipper_describe(self, machine_id): return None\n",
              [("gipper_describe", "async")]),
    "missing": ("", [("gipper_describe", "lacks it")]),
    "unmarked": ("    def gipper_describe(self, machine_id): return None\n",
                 [("gipper_describe", "not marked with @hookimpl")]),
    "unmarked value": ("    gipper_describe = None\n", [("gipper_describe", "not marked with @hookimpl")]),
    "property": ("    @property\n    def gipper_describe(self): return hookimpl(lambda machine_id: None)\n",
                 [("gipper_describe", "not marked with @hookimpl")]),
    "specname": ("    @hookimpl(specname='gipper_rent')\n    def gipper_describe(self): return 1\n",
                 [("gipper_describe", "specname")]),
    "wrapper": ("    @hookimpl(wrapper=True)\n    def gipper_describe(self, machine_id): return (yield)\n",
                [("gipper_describe", "doesn't wrap")]),
    "hookwrapper": ("    @hookimpl(hookwrapper=True)\n    def gipper_describe(self, machine_id): yield\n",
                    [("gipper_describe", "hookwrapper=True isn't allowed")]),
}  # fmt: skip


@pytest.mark.parametrize("fault", VERB_FAULTS)
def test_faulty_verb_is_refused(provider_source, fault):
    """Each way to get gipper_describe wrong is told with the hook and the cause, and with nothing else."""
    text, wanted = VERB_FAULTS[fault]
    found = problems(provider_source(replace={"gipper_describe": text}))
    assert [hook for hook, _ in found] == [hook for hook, _ in wanted]
    for (_, cause), (_, part) in zip(found, wanted, strict=True):
        assert part.replace("lacks it", "that lacks it") in cause


def test_unmarked_misspelt_is_told_with_the_nearest(provider_source):
    """An unmarked attribute that is no hook names the hook that it is nearest to."""
    extra = "    def gipper_bill(self, since, until): return None\n"
    hook, cause = one_problem(provider_source(extra=extra))
    assert hook == "gipper_bill"
    assert "not marked" in cause and "did you mean gipper_billed?" in cause


def test_marked_without_prefix_is_refused(provider_source):
    """A marked method whose name is no hook at all is told, not ignored."""
    extra = "    @hookimpl\n    def list_offers(self, query): return None\n"
    assert one_problem(provider_source(extra=extra))[0] == "list_offers"


def test_decorated_verb_is_judged_by_what_is_called(provider_source):
    """A verb behind functools.wraps is checked by the signature that a call will use."""
    extra = (
        "    @staticmethod\n    def _wrap(fn):\n        import functools\n"
        "        @functools.wraps(fn)\n        def inner(*a): return fn(*a)\n        return inner\n"
        "    _w = _wrap.__func__\n"
        "    @hookimpl\n    @_w\n    def gipper_account(self, nonsense): return None\n"
    )
    assert "no argument 'nonsense'" in one_problem(provider_source(extra=extra))[1]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "must be a static method"),
        ("    @hookimpl\n    def gipper_provider(self): return None\n", "must be a static method"),
        ("    @staticmethod\n    @hookimpl\n    def gipper_provider(): return 1\n", "returned int"),
        ("    @staticmethod\n    @hookimpl\n    def gipper_provider(): 1 / 0\n", "ZeroDivisionError"),
        ("    @staticmethod\n    @hookimpl\n    def gipper_provider(): raise SystemExit(1)\n", "SystemExit"),
        ("    @staticmethod\n    def gipper_provider(): return None\n", "not marked"),
    ],
)
def test_info_must_be_readable_from_the_class(provider_source, text, part):
    """Without a marked static gipper_provider that returns a ProviderInfo, the class is refused."""
    hook, cause = one_problem(provider_source(replace={"gipper_provider": text}))
    assert hook == "gipper_provider" and part in cause


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("name='other', title='A'", "the entry is called 'acme', but its info says 'other'"),
        ("name='acme', title='A', settings_table=dict", "settings_table must be an attrs class"),
        ("name='acme', title='A', job_table=3", "job_table must be an attrs class"),
        ("name='acme', title='A', key_names='KEY'", "key_names must be a tuple"),
        ("name='acme', title='A', api=99", "needs gipper API 99, this is 1"),
    ],
)
def test_info_must_make_sense(provider_source, arguments, part):
    """A name that differs from the entry's, odd tables, odd key names, another API version: refused."""
    text = f"    @staticmethod\n    @hookimpl\n    def gipper_provider(): return ProviderInfo({arguments})\n"
    assert part in one_problem(provider_source(replace={"gipper_provider": text}))[1]


@pytest.mark.parametrize("order", ["staticmethod outside", "staticmethod inside"])
def test_marker_on_either_side_of_staticmethod(provider_source, order):
    """The marker may stand above or below @staticmethod."""
    marks = ("    @staticmethod\n    @hookimpl\n", "    @hookimpl\n    @staticmethod\n")
    text = marks[order.endswith("inside")] + (
        "    def gipper_provider(): return ProviderInfo(name='acme', title='A')\n"
    )
    assert problems(provider_source(replace={"gipper_provider": text})) == []


@pytest.mark.parametrize("hook", ["gipper_classify_upload", "gipper_receipt_written", "gipper_commands"])
def test_hooks_that_are_no_market_s_are_refused_on_a_class(provider_source, hook):
    """What core would never call on a provider's class is refused there, not silently dropped."""
    extra = f"    @hookimpl\n    def {hook}(self): return None\n"
    assert "gipper.plugins" in one_problem(provider_source(extra=extra))[1]


@attrs.define(eq=False)
class Slotted:
    """A provider as attrs.define makes it: slots, identity."""

    context: object

    @staticmethod
    @hookimpl
    def gipper_provider() -> ProviderInfo:
        return ProviderInfo(name="acme", title="A")

    @hookimpl
    def gipper_list_offers(self, query):
        return Listing(items=())

    @hookimpl
    def gipper_rent(self, offer, request):
        return Machine(provider="acme", id="1", name=request.name)

    @hookimpl
    def gipper_describe(self, machine_id):
        return Machine(provider="acme", id=machine_id, name=str(self.context is not None))

    @hookimpl
    def gipper_list_ours(self):
        return Listing(items=())

    @hookimpl
    def gipper_terminate(self, machine_id):
        pass


def test_attrs_class_with_identity_works(make_provider):
    """A provider made with attrs.define(eq=False) passes and can be used."""
    assert make_provider(Slotted).describe("7").name == "True"


def test_attrs_class_that_compares_by_value_is_refused():
    """attrs.define without eq=False would make two handles' instances one: refused, with the cure."""
    Equal = attrs.define(type("Equal", (Slotted,), {}))
    (only,) = check_provider(Equal, ORIGIN).problems
    assert "attrs.define(eq=False)" in only.cause


def test_not_a_class():
    """An entry that names an instance or a function is refused."""
    assert "not a class" in check_provider(lambda context: None, ORIGIN).problems[0].cause


def module_problems(kind: str = "team", **hooks: object) -> list[tuple[str | None, str]]:
    module = ModuleType("fake")
    for name, value in hooks.items():
        setattr(module, name, value)
    return [(p.hook, p.cause) for p in check_module(module, ORIGIN, kind).problems]


def wrapper(query):
    return (yield)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_module_may_not_implement_a_verb(verb):
    """No module, whatever its kind, implements a verb."""
    for kind in ("team", "builtin", "job"):
        ((hook, cause),) = module_problems(kind, **{verb: hookimpl(lambda: None)})
        assert hook == verb and "it is a verb" in cause


@pytest.mark.parametrize("hook", sorted(hook_arguments()))
def test_only_two_hooks_may_be_wrapped(hook):
    """A team's wrapper is accepted on list_offers and rent alone; an old-style one nowhere."""

    def new():
        return (yield)

    def old():
        yield

    allowed = hook in ("gipper_list_offers", "gipper_rent")
    assert (module_problems(**{hook: hookimpl(new, wrapper=True)}) == []) == allowed
    assert "hookwrapper" in module_problems(**{hook: hookimpl(old, hookwrapper=True)})[0][1]


def test_job_hooks_may_not_wrap_verbs_or_add_commands():
    """A job's own file may neither wrap a verb nor add commands; nor may a built-in add commands."""
    assert "may not wrap" in module_problems("job", gipper_list_offers=hookimpl(wrapper, wrapper=True))[0][1]
    for kind in ("job", "builtin"):
        assert "gipper.plugins" in module_problems(kind, gipper_commands=hookimpl(lambda group: None))[0][1]
    assert module_problems("team", gipper_commands=hookimpl(lambda group: None)) == []


def test_wrapper_that_never_yields_is_refused():
    """A wrapper must be a generator."""
    assert "must yield" in module_problems(gipper_rent=hookimpl(lambda offer: None, wrapper=True))[0][1]


def test_module_that_imports_a_plugin_by_name_is_fine():
    """An imported module whose name begins with gipper_ isn't mistaken for a hook; a plain value is."""
    assert module_problems(gipper_helpers=ModuleType("gipper_helpers")) == []
    assert module_problems(gipper_helpers=3)[0][0] == "gipper_helpers"


def test_a_class_in_the_modules_group_is_refused():
    """What stands in gipper.plugins must be a module."""
    assert "not a module" in check_module(Slotted, ORIGIN, "team").problems[0].cause


def test_module_for_another_api_is_refused():
    """GIPPER_API in a module is honoured."""
    assert module_problems(GIPPER_API=99) == [(None, "needs gipper API 99, this is 1")]


def test_problem_reads_as_one_line_with_blame():
    """A problem's text names plugin, version, distribution, hook and cause."""
    (only,) = check_provider(3, ORIGIN).problems
    assert str(only) == "plugin acme 1.2 (distribution gipper-acme): it is a int, not a class"
