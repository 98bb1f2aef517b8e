import pytest

from seqcredit.errors import UserError
from seqcredit.experiments import catalogue as recipes


def test_every_recipe_is_listed_and_can_be_shown() -> None:
    listed = dict(recipes.listing())
    assert listed["iwslt14/erac"] == "ERAC: mle -> critic -> actor_critic"
    assert len(listed) == len(list(recipes.RECIPES.rglob("*.toml")))
    assert 'objective = "soft_q"' in recipes.show("iwslt14/vaml")
    assert recipes.show("demo/mle.toml") == recipes.show("demo/mle")


def test_an_unknown_recipe() -> None:
    with pytest.raises(UserError, match="There is no recipe 'iwslt14/nope'"):
        recipes.show("iwslt14/nope")
