from penstock.benchmarks.claims import Claim, judge
from penstock.benchmarks.harness import Measured
from penstock.benchmarks.outcome import Comparison, Contender

CLAIM = Claim("Three times", "someone", wanted=3.0, partly=1.2)


def test_a_claim_holds_in_part_or_does_not():
    assert judge(CLAIM, 3.0, "a / b").outcome == "holds"
    assert judge(CLAIM, 2.99, "a / b").outcome == "holds in part"
    assert judge(CLAIM, 1.19, "a / b").outcome == "does not hold"


def test_contenders_are_compared_by_time_and_by_cpu_time():
    slow = Contender.of("slow", Measured(1000, wall_seconds=2.0, cpu_seconds=4.0, peak_mib=10))
    fast = Contender.of("fast", Measured(1000, wall_seconds=0.5, cpu_seconds=0.4, peak_mib=20))
    assert (slow.per_second, slow.cpu_us) == (500.0, 4000.0)
    comparison = Comparison("rows to batches", "rows", [slow, fast])
    assert comparison.rate_ratio("fast", to="slow") == 4.0
    assert comparison.cpu_ratio("fast", to="slow") == 10.0
