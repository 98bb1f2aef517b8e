import pytest

from seqcredit.credit.theorems import CLAIMS
from seqcredit.results import verify

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checks() -> list[verify.Check]:
    return list(verify.checks())


def test_every_claim_holds_everywhere(checks: list[verify.Check]) -> None:
    assert [check for check in checks if not check.passed] == []
    assert len(checks) == verify.COUNT


def test_the_scope_is_wide_enough(checks: list[verify.Check]) -> None:
    assert len({check.reward for check in checks}) >= 5
    assert len({check.tau for check in checks}) >= 3
    assert min(check.sequences for check in checks) >= 1_000
    assert {check.claim for check in checks} == {claim.text for claim in CLAIMS}


def test_rewards_tell_sequences_apart() -> None:
    """A constant reward would pass every check and show nothing."""
    references = verify.pad_references([[[1, 2, 3, 2], [3, 1]]])[0]
    for reward in verify.rewards(verify.SPACES[0]).values():
        assert len(verify.score(verify.SPACES[0], reward, references).finished.unique()) >= 5


def test_the_summary_names_what_failed(checks: list[verify.Check]) -> None:
    broken = [checks[0]._replace(error=float("nan"), passed=False), *checks[1:]]
    results = list(verify.summary(broken).columns[-1].cells)
    assert results[0].startswith("FAIL in 1")
    assert set(results[1:]) == {"pass"}
    assert "1,365 (5 actions, length <= 6)" in verify.scope(checks)
