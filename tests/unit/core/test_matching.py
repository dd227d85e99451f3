"""Text only. What the expression matches is seen on a real API server (tests/integration/test_caps.py)."""

from __future__ import annotations

from drabridge.core.matching import created_condition

EXPRESSION_MAX = 100_000
"""Code points of an expression that cel-go parses by default."""


def test_names_stand_in_it_once_and_in_order_so_that_it_changes_with_them_only() -> None:
    text = created_condition(["b.example.com/x", "a.example.com/x"])
    assert text.count('["a.example.com/x", "b.example.com/x"]') == 1
    assert text == created_condition({"a.example.com/x", "b.example.com/x"})


def test_a_thousand_names_fit() -> None:
    names = [f"{'d' * 60}.example.com/{i:08}" for i in range(1000)]
    assert len(created_condition(names)) < EXPRESSION_MAX


def test_without_names_our_claims_are_matched_still() -> None:
    text = created_condition([])
    assert "n in []" in text
    assert "startsWith('drabridge-')" in text
