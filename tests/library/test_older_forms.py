"""``impl`` with a Library, the name in it and a key."""
import rushlight as torch


def test_an_operator_with_out_of_a_library():
    library = torch.library.Library("older_forms", "FRAGMENT")
    library.define("joined(Tensor[] tensors, int dim, *, Tensor(a!) out) -> ()")

    @torch.library.impl(library, "joined", "CPU")
    def joined(tensors, dim, out):
        torch.cat(tensors, dim, out=out)

    out = torch.empty(3)
    torch.ops.older_forms.joined([torch.ones(1), torch.zeros(2)], 0, out=out)
    assert out.tolist() == [1, 0, 0] and callable(joined)
