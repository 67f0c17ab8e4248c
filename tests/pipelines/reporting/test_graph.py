import re

from penstock.pipelines.reporting.page import _environment
from penstock.pipelines.reporting.run_facts import NodeFacts


def draw(upstream):
    nodes = [
        NodeFacts(name, "done", 1.0, (), tries=1, upstream=ups) for name, ups in upstream.items()
    ]
    return str(_environment().get_template("macros.html").module.graph(nodes))


def test_a_node_stands_below_those_that_began_before_it():
    drawn = draw({"gen": [], "stats": ["gen"], "gate": ["gen", "stats"]})
    boxes = re.findall(r'aria-label="([^"]+)"><rect x="6" y="(\d+)"', drawn)
    assert boxes == [
        ("gen: done in 1.0 s", "6"),
        ("stats: done in 1.0 s", "64"),
        ("gate: done in 1.0 s", "122"),
    ]
    assert f'height="{122 + 42 + 6}"' in drawn


def test_an_edge_is_a_line_from_the_node_above_and_else_an_arc_around_those_between():
    drawn = draw({"gen": [], "stats": ["gen"], "gate": ["gen", "stats"]})
    assert re.findall(r' d="([^"]+)"', drawn) == [
        "M92 48V64",
        "M178 27C215.333 27 215.333 143 178 143",
        "M92 106V122",
    ]
    assert f'width="{172 + 12 + 28}"' in drawn


def test_what_is_waited_for_and_unknown_does_not_count():
    assert "<path" not in draw({"a": ["elsewhere"]})
    assert "<rect" not in draw({})


def test_a_long_name_is_cut():
    assert f">{'x' * 21}…</text>" in draw({"x" * 30: []})
