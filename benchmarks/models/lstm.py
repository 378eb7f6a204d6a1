"""A language model of LSTM layers (Zaremba and others 2014): two of 650 units by default."""
from torch import nn
from torch.nn import functional as F


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=10000, width=650, layers=2, dropout=0.0):
        super().__init__()
        self.drop, self.embedding = nn.Dropout(dropout), nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout)
        self.head = nn.Linear(width, vocabulary)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.05, 0.05)

    def forward(self, ids, targets, hidden, cell):
        """The loss of [length, batch] of words, and the state after them."""
        y, state = self.lstm(self.drop(self.embedding(ids)), (hidden, cell))
        scores = self.head(self.drop(y))
        return F.cross_entropy(scores.view(-1, scores.shape[-1]), targets.view(-1)), state


class Scorer(LanguageModel):
    """The scores of the words that follow, instead of a loss."""

    def forward(self, ids, hidden, cell):
        y, state = self.lstm(self.embedding(ids), (hidden, cell))
        return self.head(y), state
