"""Default planners: nested states are flattened, replicated values are written once, and boxes are read where they
overlap."""
from __future__ import annotations

import dataclasses
import io
import logging
from collections import ChainMap

import rushlight as torch

from ._nested_dict import flatten_state_dict, set_element
from .metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties,
                       TensorStorageMetadata)
from .planner import (LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, TensorWriteData, WriteItem,
                      WriteItemType)

__all__ = ["DefaultSavePlanner", "DefaultLoadPlanner", "create_default_local_load_plan",
           "create_default_global_load_plan", "create_default_local_save_plan",
           "create_default_global_save_plan"]


# --- what a value consists of -----------------------------------------------------------------------------------------
def whole(size) -> ChunkStorageMetadata:
    """The chunk that is all of a tensor of this size."""
    return ChunkStorageMetadata(torch.Size([0] * len(size)), torch.Size(size))


def write_items(name: str, value) -> list[WriteItem]:
    """Return the items to write of a value: of a sharded tensor (one with ``__create_write_items__``) the chunks of
    this process."""
    if hasattr(value, "__create_write_items__"):
        return value.__create_write_items__(name, value)
    if isinstance(value, torch.Tensor):
        data = TensorWriteData(whole(value.size()), TensorProperties.create_from_tensor(value), value.size())
        return [WriteItem(MetadataIndex(name, data.chunk.offsets), WriteItemType.TENSOR, tensor_data=data)]
    return [WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO)]


def chunks_of(value) -> list[ChunkStorageMetadata]:
    """The chunks of a tensor that this process has."""
    return value.__create_chunk_list__() if hasattr(value, "__create_chunk_list__") else [whole(value.size())]


def local_tensor(value, index: MetadataIndex):
    """The memory of the chunk that an index names."""
    found = value.__get_tensor_shard__(index) if hasattr(value, "__get_tensor_shard__") else value
    if not isinstance(found, torch.Tensor):
        raise ValueError(f"FQN: '{index.fqn}' is not a tensor but {type(found).__name__}")
    return found


def overlap(stored: ChunkStorageMetadata, wanted: ChunkStorageMetadata):
    """Return (offsets in the stored chunk, offsets in the wanted one, lengths) of the intersection; None if it is
    empty."""
    begins = [max(a, b) for a, b in zip(stored.offsets, wanted.offsets)]
    ends = [min(a + n, b + m) for a, n, b, m in zip(stored.offsets, stored.sizes, wanted.offsets, wanted.sizes)]
    lengths = torch.Size([e - b for b, e in zip(begins, ends)])
    if any(n <= 0 for n in lengths):
        return None
    return torch.Size([b - a for b, a in zip(begins, stored.offsets)]), torch.Size(
        [b - a for b, a in zip(begins, wanted.offsets)]), lengths


def create_read_items(name: str, stored, value) -> list[ReadItem]:
    """Return the items to read for a value: for a tensor, each intersection of a stored chunk with one of this process.
    ValueError if the stored value and ``value`` differ in kind."""
    if isinstance(stored, BytesStorageMetadata):
        return [ReadItem(LoadItemType.BYTE_IO, MetadataIndex(name), torch.Size([0]), MetadataIndex(name),
                         torch.Size([0]), torch.Size([0]))]
    if not isinstance(value, torch.Tensor):
        raise ValueError(
            f"Invalid checkpoint metadata for {name}, expected BytesStorageMetadata but found {type(stored)}")
    found = []
    for k, wanted in enumerate(chunks_of(value)):
        for n, chunk in enumerate(stored.chunks):
            shared = overlap(chunk, wanted)
            if shared is not None:
                source, target, lengths = shared
                found.append(ReadItem(LoadItemType.TENSOR, MetadataIndex(name, wanted.offsets, k), target,
                                      MetadataIndex(name, chunk.offsets, n), source, lengths))
    return found


# --- plans ------------------------------------------------------------------------------------------------------------
def create_default_local_save_plan(state_dict, is_coordinator: bool) -> SavePlan:
    """Return the plan of all that this process could write: its chunks, and values that every process has."""
    return SavePlan([item for name, value in state_dict.items() for item in write_items(name, value)])


def written_once(plans: list[SavePlan], lowest: bool) -> list[SavePlan]:
    """Return plans with each item in one plan: the one with the fewest bytes, or the first.  ValueError for a tensor
    that differs between plans."""
    holders, seen = {}, {}
    for k, plan in enumerate(plans):
        for item in plan.items:
            data = item.tensor_data
            now = data and (tuple(data.size), data.properties.dtype)
            if seen.setdefault(item.index.fqn, now) != now:
                raise ValueError(f"{item.index.fqn} is not the same in all processes: {seen[item.index.fqn]} and {now}")
            holders.setdefault(item.index, []).append(k)
    load, chosen = [0] * len(plans), {}
    sizes = {item.index: item.tensor_storage_size() or 1 for plan in plans for item in plan.items}
    for index, ranks in holders.items():
        chosen[index] = min(ranks) if lowest else min(ranks, key=lambda rank: (load[rank], rank))
        load[chosen[index]] += sizes[index]
    return [dataclasses.replace(plan, items=[item for item in plan.items if chosen[item.index] == k])
            for k, plan in enumerate(plans)]


def create_default_global_save_plan(all_plans: list[SavePlan],
                                    rewrite_index_hints: bool = True) -> tuple[list[SavePlan], Metadata]:
    """Return the plans with each chunk's index in its tensor, and the metadata of all."""
    known: dict = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            if item.type is WriteItemType.BYTE_IO:
                known[item.index.fqn] = BytesStorageMetadata()
                items.append(item)
                continue
            data = item.tensor_data
            tensor = known.setdefault(item.index.fqn, TensorStorageMetadata(data.properties, data.size, []))
            index = dataclasses.replace(item.index, index=len(tensor.chunks)) if rewrite_index_hints else item.index
            items.append(dataclasses.replace(item, index=index))
            tensor.chunks.append(data.chunk)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(known)


def check_chunks(metadata: Metadata):
    """Raise ValueError for chunks that overlap, exceed their tensor, or do not cover it."""
    for name, tensor in metadata.state_dict_metadata.items():
        if isinstance(tensor, BytesStorageMetadata):
            continue
        covered = 0
        for k, chunk in enumerate(tensor.chunks):
            if any(offset < 0 or size < 0 or offset + size > total
                   for offset, size, total in zip(chunk.offsets, chunk.sizes, tensor.size)):
                raise ValueError(
                    f"Failed to validate global plan: a chunk of {name} at {list(chunk.offsets)} of size "
                    f"{list(chunk.sizes)} lies outside of {list(tensor.size)}")
            if any(overlap(chunk, other) for other in tensor.chunks[:k]) or not tensor.size and k:
                raise ValueError(
                    f"Failed to validate global plan: two chunks of {name} overlap, one of them at "
                    f"{list(chunk.offsets)}")
            covered += chunk.sizes.numel()
        if covered != tensor.size.numel():
            raise ValueError(
                f"Failed to validate global plan: the chunks of {name} have {covered} of {tensor.size.numel()} "
                "elements")


def create_default_local_load_plan(state_dict, metadata: Metadata, strict: bool = True) -> LoadPlan:
    """Return the plan of what this process reads.  RuntimeError for a name that the checkpoint lacks (if ``strict``),
    ValueError for a tensor of another size."""
    items = []
    for name, value in state_dict.items():
        stored = metadata.state_dict_metadata.get(name)
        if stored is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        if isinstance(stored, TensorStorageMetadata) and isinstance(
                value, torch.Tensor) and stored.size != value.size():
            raise ValueError(f"Size mismatch between saved {stored.size} and current: {value.size()} for {name}")
        items += create_read_items(name, stored, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    return all_plans


# --- planners ---------------------------------------------------------------------------------------------------------
class DefaultSavePlanner(SavePlanner):
    """Plans saving.  ``dedup_save_to_lowest_rank``: replicated values are written by the first process that has them,
    instead of the one with the least to write."""

    mappings: dict

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, dedup_replicated_tensors=None,
                 dedup_save_to_lowest_rank=False, enable_plan_caching=False):
        if dedup_replicated_tensors is not None:
            logging.getLogger(__name__).warning(
                "DefaultSavePlanner's `dedup_replicated_tensors` argument is deprecated, and has no effect: remove it "
                "from the call.")
        self.flatten_state_dict, self.flatten_sharded_tensors = flatten_state_dict, flatten_sharded_tensors
        self.dedup_save_to_lowest_rank, self.mappings = dedup_save_to_lowest_rank, {}

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        self.plan = dataclasses.replace(plan, planner_data=self.mappings) if self.flatten_state_dict else plan
        return self.plan

    def create_global_plan(self, all_plans):
        self.global_plan, self.metadata = create_default_global_save_plan(
            written_once(all_plans, self.dedup_save_to_lowest_rank))
        if self.flatten_state_dict:
            self.metadata = dataclasses.replace(self.metadata,
                                                planner_data=dict(ChainMap(*(p.planner_data
                                                                             for p in reversed(self.global_plan)))))
        check_chunks(self.metadata)
        return self.global_plan, self.metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem):
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex):
        """Return the object of this process's state that an index names."""
        found = self.state_dict[index.fqn]
        return local_tensor(found, index) if isinstance(found, torch.Tensor) else found

    def transform_object(self, write_item: WriteItem, object):
        """Serialize objects that are not tensors."""
        if write_item.type is WriteItemType.BYTE_IO:
            text = io.BytesIO()
            torch.save(object, text)
            return text
        return object


class DefaultLoadPlanner(LoadPlanner):
    """Plans loading into a state.  ``allow_partial_load``: names that the checkpoint lacks stay unchanged."""

    original_state_dict: dict
    mappings: dict

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, allow_partial_load=False):
        self.flatten_state_dict, self.flatten_sharded_tensors, self.allow_partial_load = (flatten_state_dict,
                                                                                          flatten_sharded_tensors,
                                                                                          allow_partial_load)
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan):
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan: LoadPlan) -> LoadPlan:
        return new_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO):
        """Loads weights, plain containers, and types that ``torch.serialization.add_safe_globals`` allows;
        pickle.UnpicklingError for others."""
        found, name = torch.load(value, weights_only=True), read_item.dest_index.fqn
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], found)
        else:
            self.state_dict[name] = found

    def resolve_tensor(self, read_item: ReadItem):
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor):
        """Nothing is left to do: ``tensor`` is the memory itself."""

    def lookup_tensor(self, index: MetadataIndex):
        return local_tensor(self.state_dict[index.fqn], index)

    def transform_tensor(self, read_item: ReadItem, tensor):
        """The box that is read into."""
        return narrowed(tensor, read_item.dest_offsets, read_item.lengths)


def narrowed(tensor, offsets, lengths):
    """The box of a tensor at ``offsets``, of these lengths, as a view."""
    for dim, (offset, length) in enumerate(zip(offsets, lengths)):
        if length < tensor.size(dim):
            tensor = tensor.narrow(dim, offset, length)
    return tensor


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Loads the checkpoint into an empty state: all of it, or the values below one of ``keys``."""

    def __init__(self, keys=None, *args, **kwargs):
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _should_include_key(self, key: str, metadata: Metadata) -> bool:
        if self.keys is None or key in self.keys:
            return True
        path = (metadata.planner_data or {}).get(key, ())
        return any(".".join(map(str, path[:k])) in self.keys for k in range(1, len(path) + 1))

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        assert not state_dict and metadata is not None
        for name, stored in metadata.state_dict_metadata.items():
            if self._should_include_key(name, metadata):
                made = torch.empty(stored.size,
                                   dtype=stored.properties.dtype) if isinstance(stored, TensorStorageMetadata) else None
                state_dict[name] = made
                if name in (metadata.planner_data or {}):
                    del state_dict[name]
                    set_element(state_dict, metadata.planner_data[name], made)
        super().set_up_planner(state_dict, metadata, is_coordinator)
