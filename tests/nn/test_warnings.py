"""What PyTorch warns of is warned of here, at the user's line."""
import pytest

import rushlight as rl

F = rl.nn.functional


@pytest.mark.parametrize("call,text", [
    (lambda: F.softmax(rl.ones(2, 3)),
     "Implicit dimension choice for softmax has been deprecated. Change the call to include dim=1"),
    (lambda: F.log_softmax(rl.ones(3)), "dim=0"),
    (lambda: rl.nn.Softmax()(rl.ones(2, 3)), "Implicit dimension choice"),
    (lambda: F.kl_div(rl.zeros(2, 2), rl.ones(2, 2)), "'batchmean' divides only by the batch size"),
    (lambda: F.mse_loss(rl.ones(2), rl.zeros(2), size_average=False), "please use reduction='sum' instead"),
    (lambda: F.l1_loss(rl.ones(2), rl.zeros(2), reduce=False), "please use reduction='none' instead"),
    (lambda: rl.nn.LSTM(2, 2, 1, dropout=0.5), "num_layers greater than 1"),
    (lambda: F.dropout2d(rl.ones(2, 2)), "Received a 2-D input to dropout2d"),
    (lambda: F.dropout2d(rl.ones(2, 2, 2)), "assuming that channel-wise 1D dropout behavior is desired"),
    (lambda: F.dropout3d(rl.ones(2, 2, 2)), "Received a 3-D input to dropout3d"),
])
def test_warned_of(call, text):
    with pytest.warns(UserWarning, match=text.replace("(", r"\(")):
        call()


def test_the_warning_names_the_line_of_the_caller():
    with pytest.warns(UserWarning) as seen:
        F.softmax(rl.ones(2, 3))
    assert seen[0].filename == __file__
