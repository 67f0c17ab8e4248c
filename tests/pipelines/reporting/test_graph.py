import re

from penstock.pipelines.reporting.graph import BOX_WIDTH, draw
from penstock.pipelines.reporting.page import _environment
from penstock.pipelines.reporting.run_facts import NodeFacts


def rows(drawing):
    """The names of the nodes in each layer, from left to right."""
    by_top = {}
    for name, (_, y) in sorted(drawing.boxes.items(), key=lambda item: item[1]):
        by_top.setdefault(y, []).append(name)
    return [by_top[y] for y in sorted(by_top)]


def ends(path):
    """The start and the end of an arrow."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
    return (numbers[0], numbers[1]), (numbers[-2], numbers[-1])


def test_nodes_stand_in_layers_below_those_they_wait_for():
    drawing = draw(
        {
            **{"schema": [], "gen": [], "stats": ["gen"], "gate": ["gen", "stats", "schema"]},
            **{"train": ["gen", "gate"], "baseline": [], "eval": ["train", "baseline", "gen"]},
        }
    )
    assert rows(drawing) == [
        ["gen"],
        ["schema", "stats"],
        ["gate"],
        ["train", "baseline"],
        ["eval"],
    ]
    # Six of nine edges are drawn: the edges from gen to gate, train and eval follow from longer
    # paths.
    assert len(drawing.arrows) == 6


def test_arrows_that_need_not_cross_do_not():
    drawing = draw({"a": [], "b": [], "c": ["b"], "d": ["a"], "e": ["c"], "f": ["d"]})
    starts = sorted(map(ends, drawing.arrows))
    for (x, y), (to_x, _) in starts:
        for (other_x, other_y), (other_to_x, _) in starts:
            assert y != other_y or (x - other_x) * (to_x - other_to_x) >= 0


def test_a_long_arrow_passes_beside_the_boxes_between():
    drawing = draw({"a": [], "b": ["a"], "c": ["b"], "x": ["a"], "d": ["c", "x"]})
    assert rows(drawing)[1] in (["b", "x"], ["x", "b"])
    (long,) = (path for path in drawing.arrows if path.count("C") == 2)
    passed = float(re.findall(r"[\d.]+", long.split("C")[1])[4])
    left = drawing.boxes["c"][0]
    assert not left <= passed <= left + BOX_WIDTH


def test_unknown_nodes_that_are_waited_for_do_not_count():
    assert draw({"a": ["elsewhere"]}).arrows == []
    assert draw({}).boxes == {}


def test_a_long_name_is_cut_and_the_description_has_all_edges():
    nodes = [
        NodeFacts("x" * 30, "done", 1.0, (), tries=1, upstream=[]),
        NodeFacts("b", "done", 1.0, (), tries=1, upstream=["x" * 30]),
    ]
    drawn = str(_environment().get_template("macros.html").module.graph(nodes))
    assert f">{'x' * 19}…</text>" in drawn
    assert f"b, done, after {'x' * 30}." in drawn
    assert drawn.count('class="edge"') == 1
