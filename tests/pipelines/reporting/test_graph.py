import itertools

from penstock.pipelines.reporting.graph import lay_out
from penstock.pipelines.reporting.graph_view import view_graph
from penstock.pipelines.reporting.pipeline_facts import NodeFacts


def test_a_node_stands_below_all_that_it_waits_for():
    layout = lay_out({"gen": [], "stats": ["gen"], "gate": ["gen", "stats"], "train": ["gate"]})
    assert {name: place[0] for name, place in layout.places.items()} == {
        "gen": 0,
        "stats": 1,
        "gate": 2,
        "train": 3,
    }
    assert (layout.layers, layout.slots) == (4, 1)


def test_an_edge_that_another_path_implies_is_marked():
    layout = lay_out({"a": [], "b": ["a"], "c": ["a", "b"]})
    assert {(e.source, e.target): e.is_implied for e in layout.edges} == {
        ("a", "b"): False,
        ("a", "c"): True,
        ("b", "c"): False,
    }


def test_a_long_edge_passes_by_the_nodes_between():
    layout = lay_out({"a": [], "b": ["a"], "c": ["b"], "z": [], "d": ["c", "z"]})
    [edge] = [e for e in layout.edges if e.source == "z"]
    assert [layer for layer, _ in edge.path] == [0, 1, 2, 3]
    taken = {layout.places[name] for name in ("b", "c")}
    assert not taken & set(edge.path)


def test_neighbours_are_placed_so_that_edges_do_not_cross():
    layout = lay_out({"a": [], "b": [], "x": ["b"], "y": ["a"]})
    slots = {name: slot for name, (_, slot) in layout.places.items()}
    assert (slots["a"] < slots["b"]) == (slots["y"] < slots["x"])


def test_what_is_waited_for_and_unknown_does_not_count():
    assert lay_out({"a": ["elsewhere"]}).edges == []
    assert lay_out({}).layers == 0


def test_boxes_do_not_overlap_and_lie_on_the_canvas():
    nodes = [
        NodeFacts(name, "done", 1.0, 1, ups, (), (), {})
        for name, ups in {"a": [], "b": [], "c": ["a", "b"], "d": ["a"]}.items()
    ]
    view = view_graph(nodes)
    corners = sorted((box.y, box.x) for box in view.boxes)
    for (y1, x1), (y2, x2) in itertools.pairwise(corners):
        assert y2 >= y1 + view.node_height or x2 >= x1 + view.node_width
    assert all(0 <= box.x <= view.width - view.node_width for box in view.boxes)
    assert all(0 <= box.y <= view.height - view.node_height for box in view.boxes)
    assert [box.state for box in view.boxes] == ["done in 1.0 s"] * 4
