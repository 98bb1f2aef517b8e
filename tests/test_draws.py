import torch

from seqcredit.draws import Noise, draw, uniform


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_frequencies_are_the_probabilities() -> None:
    weights = torch.tensor([0.5, 0.0, 1.5, 2.0, 0.0]).expand(40_000, -1)  # not normalised
    drawn = draw(weights, uniform(weights, generator()))
    frequency = torch.bincount(drawn, minlength=5) / 40_000
    torch.testing.assert_close(frequency, weights[0] / 4, atol=0.01, rtol=0)


def test_rows_have_their_own_distribution() -> None:
    weights = torch.eye(5).reshape(1, 5, 5).expand(30, -1, -1)
    drawn = draw(weights, uniform(weights, generator()))
    assert torch.equal(drawn, torch.arange(5).expand(30, 5))


def test_by_hand() -> None:
    weights = torch.tensor([1.0, 0.0, 2.0, 1.0]).expand(5, -1)
    assert draw(weights, torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75])).tolist() == [0, 0, 2, 2, 3]


def test_never_a_weight_of_zero_nor_out_of_range() -> None:
    """Totals of all sizes, zeros at both ends, and numbers that rounding carries to the very end."""
    source = generator(1)
    for scale in (1e-30, 1e-3, 1.0, 1.0000001, 3.0, 1e20):
        weights = torch.rand(20_000, 7, generator=source) * scale
        weights[:, [0, 3, 6]] = 0
        for numbers in (
            uniform(weights, source),
            torch.full((20_000,), 1 - 2**-24),
            torch.zeros(20_000),
            torch.ones(20_000),
        ):
            drawn = draw(weights, numbers)
            assert (weights.gather(1, drawn.unsqueeze(1)) > 0).all()


def test_numbers_are_as_precise_as_the_weights() -> None:
    assert uniform(torch.ones(3, 2, dtype=torch.float64), generator()).dtype == torch.float64
    assert uniform(torch.ones(3, 2), generator()).shape == (3,)


def test_a_share_of_the_batch_gets_its_own_rows() -> None:
    whole = Noise(generator(5), 7).uniform(3, 2)
    assert whole.shape == (7, 3, 2)
    assert torch.equal(Noise(generator(5), 7, 2, 4).uniform(3, 2), whole[2:6])
    twice = Noise(generator(5), 7).repeated(2).uniform(3)
    assert twice.shape == (14, 3)
    assert torch.equal(Noise(generator(5), 7, 2, 4).repeated(2).uniform(3), twice[4:12])


def test_numbers_are_between_0_and_1() -> None:
    numbers = Noise(generator(3), 5).uniform(200)
    assert (numbers >= 0).all()
    assert (numbers < 1).all()
    assert 0.4 < numbers.mean() < 0.6


def test_one_row_may_have_many_columns() -> None:
    assert draw(torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([0.9])).tolist() == [3]


def test_same_seed_same_numbers() -> None:
    assert torch.equal(Noise(generator(7), 4).uniform(9), Noise(generator(7), 4).uniform(9))
    assert not torch.equal(Noise(generator(7), 4).uniform(9), Noise(generator(8), 4).uniform(9))


def test_weights_that_are_not_numbers_give_an_index_all_the_same() -> None:
    drawn = draw(torch.full((3, 5), torch.nan), torch.tensor([0.0, 0.5, 0.99]))
    assert ((drawn >= 0) & (drawn < 5)).all()


def test_noise_apart_leaves_what_comes_after_as_it_is() -> None:
    """However much is drawn from it, and the same in every process."""
    one, other = Noise(generator(), 4), Noise(generator(), 4, 2, 2)
    mine, theirs = one.apart(), other.apart()
    mine.uniform(50)
    assert torch.equal(one.uniform(3)[2:], other.uniform(3))
    assert torch.equal(Noise(generator(), 4).apart().uniform(3)[2:], theirs.uniform(3))
    assert not torch.equal(Noise(generator(), 4).apart().uniform(3), Noise(generator(), 4).uniform(3))
    source = Noise(generator(), 4)
    assert not torch.equal(source.apart().uniform(3), source.apart().uniform(3))


def test_noise_apart_is_another_one_every_time() -> None:
    noise = Noise(torch.Generator().manual_seed(3), 1)
    assert len({float(noise.apart().uniform().double()) for _ in range(200)}) > 190  # float32: a few may be equal
