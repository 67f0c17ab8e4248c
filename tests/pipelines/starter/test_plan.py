"""Looks at data in, the numbers of a first config out."""

from penstock.pipelines.starter.look import look_at
from penstock.pipelines.starter.plan import plan_table


def test_the_draw_of_the_rows_does_not_decide_whether_rare_classes_are_learned(tmp_path):
    file = tmp_path / "rows.csv"
    kinds = ["usual"] * 38 + ["rare", "odd"]
    lines = [f"{i % 7},{kinds[i % 40]}" for i in range(3000)]
    file.write_text("\n".join(["x,kind", *lines]) + "\n")
    plan = plan_table(look_at(str(file), ["kind"]), "rows.csv")
    # The share is 0.95; of 1,000 rows for evaluation two standard errors are 0.014.
    assert plan.thresholds == {"SparseCategoricalAccuracy": 0.93}
    assert plan.max_worsening == {"SparseCategoricalAccuracy": 0.02}
