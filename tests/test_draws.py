import torch

from seqcredit.draws import draw


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_frequencies_are_the_probabilities() -> None:
    weights = torch.tensor([0.5, 0.0, 1.5, 2.0, 0.0])  # not normalised
    drawn = draw(weights.expand(40_000, -1), generator())
    frequency = torch.bincount(drawn, minlength=5) / 40_000
    torch.testing.assert_close(frequency, weights / 4, atol=0.01, rtol=0)


def test_rows_have_their_own_distribution() -> None:
    drawn = draw(torch.eye(5).reshape(1, 5, 5).expand(30, -1, -1), generator())
    assert torch.equal(drawn, torch.arange(5).expand(30, 5))


def test_never_a_weight_of_zero_nor_out_of_range() -> None:
    """Totals of all sizes, zeros at both ends, as rounding could carry a draw past the last positive weight."""
    source = generator(1)
    for scale in (1e-30, 1e-3, 1.0, 1.0000001, 3.0, 1e20):
        weights = torch.rand(20_000, 7, generator=source) * scale
        weights[:, [0, 3, 6]] = 0
        drawn = draw(weights, source)
        assert (weights.gather(1, drawn.unsqueeze(1)) > 0).all()


def test_the_largest_uniform_number_stays_in_range(monkeypatch) -> None:
    monkeypatch.setattr(torch, "rand", lambda shape, **kwargs: torch.ones(shape, dtype=kwargs["dtype"]))
    assert draw(torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]), generator()).tolist() == [1, 2]


def test_same_seed_same_draws() -> None:
    weights = torch.rand(50, 9)
    assert torch.equal(draw(weights, generator(7)), draw(weights, generator(7)))
    assert not torch.equal(draw(weights, generator(7)), draw(weights, generator(8)))
