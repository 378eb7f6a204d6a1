"""The same memory under another tensor."""
import rushlight


def test_gradients_pass_through_an_alias():
    x = rushlight.tensor([1.0, 2.0], requires_grad=True)
    for name in ("alias", "lift_fresh"):
        other = getattr(rushlight.ops.aten, name)(x)
        assert other is not x and other.data_ptr() == x.data_ptr() and other.requires_grad
        gradient, = rushlight.autograd.grad((other * 3).sum(), x)
        assert gradient.tolist() == [3.0, 3.0]
