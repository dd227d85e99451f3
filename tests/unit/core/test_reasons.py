from __future__ import annotations

import ast
import inspect
import re

from drabridge.core import reasons
from drabridge.core.reasons import CURES, Reason


def described() -> set[str]:
    """Give the members of Reason that have a docstring, from the source: Python keeps none for them."""
    [enum] = [node for node in ast.parse(inspect.getsource(reasons)).body if isinstance(node, ast.ClassDef)]
    found = set()
    for member, following in zip(enum.body, enum.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(following, ast.Expr):
            assert isinstance(following.value, ast.Constant)
            assert str(following.value.value).strip().endswith((".", '"'))
            found.add(ast.unparse(member.targets[0]))
    return found


def test_every_reason_says_what_it_means() -> None:
    assert described() == {reason.name for reason in Reason}


def test_every_reason_has_a_cure() -> None:
    assert set(CURES) == set(Reason)


def test_a_cure_fits_into_the_sentence_that_shows_it() -> None:
    """It stands between "Cure: " and a full stop."""
    odd = {cure for cure in CURES.values() if not cure or cure.strip() != cure or cure.endswith(".")}
    assert not odd


def test_reasons_are_camel_case_as_conditions_and_events_want_them() -> None:
    odd = [reason for reason in Reason if not re.fullmatch(r"([A-Z][a-z]+)+", reason)]
    assert not odd


def test_no_two_reasons_are_the_same_word() -> None:
    """Python would make the second an alias of the first without a word."""
    assert len(Reason) == len(Reason.__members__)
