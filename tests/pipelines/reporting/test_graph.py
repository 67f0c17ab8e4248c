from penstock.pipelines.reporting.graph import view_graph
from penstock.pipelines.reporting.pipeline_facts import NodeFacts


def view(upstream):
    return view_graph(
        [NodeFacts(name, "done", 1.0, (), tries=1, upstream=ups) for name, ups in upstream.items()]
    )


def test_a_node_stands_below_those_that_began_before_it():
    drawn = view({"gen": [], "stats": ["gen"], "gate": ["gen", "stats"]})
    assert [(box.name, box.y) for box in drawn.boxes] == [("gen", 6), ("stats", 64), ("gate", 122)]
    assert [box.state for box in drawn.boxes] == ["done in 1.0 s"] * 3
    assert drawn.height == 122 + drawn.node_height + 6


def test_an_edge_is_a_line_from_the_node_above_and_else_an_arc_around_those_between():
    drawn = view({"gen": [], "stats": ["gen"], "gate": ["gen", "stats"]})
    line, arc, other = drawn.edges
    assert line == "M92 48V64"
    assert arc == "M178 27C215.333 27 215.333 143 178 143"
    assert other == "M92 106V122"
    assert drawn.width == 172 + 12 + 28


def test_what_is_waited_for_and_unknown_does_not_count():
    assert view({"a": ["elsewhere"]}).edges == []
    assert view({}).boxes == []


def test_a_long_name_is_cut():
    [box] = view({"x" * 30: []}).boxes
    assert box.label == "x" * 21 + "…"
