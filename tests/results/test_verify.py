import pytest

from seqcredit.credit.theorems import CLAIMS
from seqcredit.results import verify

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cells() -> list[verify.Cell]:
    return list(verify.cells())


def test_every_claim_holds_everywhere(cells: list[verify.Cell]) -> None:
    assert [cell for cell in cells if not cell.passed] == []
    assert len(cells) == verify.COUNT


def test_the_scope_is_wide_enough(cells: list[verify.Cell]) -> None:
    assert len({cell.reward for cell in cells}) >= 5
    assert len({cell.tau for cell in cells}) >= 3
    assert min(cell.sequences for cell in cells) >= 1_000
    assert {cell.claim for cell in cells} == {claim.text for claim in CLAIMS}


def test_rewards_tell_sequences_apart() -> None:
    """A constant reward would pass every check and show nothing."""
    references = verify.pad_references([[[1, 2, 3, 2], [3, 1]]])[0]
    for reward in verify.rewards(verify.SPACES[0]).values():
        assert len(verify.score(verify.SPACES[0], reward, references).finished.unique()) >= 5


def test_the_summary_names_what_failed(cells: list[verify.Cell]) -> None:
    broken = [cells[0]._replace(error=float("nan"), passed=False), *cells[1:]]
    results = list(verify.summary(broken).columns[-1].cells)
    assert results[0].startswith("FAIL in 1")
    assert set(results[1:]) == {"pass"}
    assert "1,365 (5 actions, length <= 6)" in verify.scope(cells)
