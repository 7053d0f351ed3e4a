#include "lockstep/comm/hierarchical/host_stages.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/comm/hierarchical/host_order.h"
#include "lockstep/comm/hierarchical/stage_sizes.h"
#include "lockstep/comm/reduce/elements.h"
#include "lockstep/comm/symmetric_memory.h"

namespace lockstep {
namespace {

at::Tensor flat_view(const at::Tensor& tensor) { return tensor.detach().view(-1); }

}  // namespace

bool HostStages::direct(const at::Tensor& share) const {
  return share.numel() * share.element_size() * world_size_ <= kMostDirectBytes;
}

bool HostStages::one_lane(const at::Tensor& flat) const { return layout_.lanes == 1 || flat.numel() < layout_.lanes; }

at::Tensor HostStages::slice_of(const at::Tensor& flat, int lane) const {
  const std::int64_t each = (flat.numel() + layout_.lanes - 1) / layout_.lanes;
  const std::int64_t begin = std::min(flat.numel(), lane * each);
  return flat.narrow(0, begin, std::min(flat.numel() - begin, each));
}

void HostStages::reduce_to(at::Tensor& tensor, ReduceOp op, int root) {
  at::Tensor flat = flat_view(tensor);
  if (direct(flat)) return reduce_directly(flat, op, root);
  if (one_lane(flat)) return reduce_by_one_lane(flat, op, root);
  if (!layout_.equal) return reduce_uneven(flat, op, root);
  // The remainder of the division is reduced directly.
  const std::int64_t even = flat.numel() / layout_.lanes * layout_.lanes;
  at::Tensor slices = flat.narrow(0, 0, even);
  reduce_slices(slices, op, root);
  if (even == flat.numel()) return;
  at::Tensor rest = flat.narrow(0, even, flat.numel() - even);
  reduce_by_one_lane(rest, op, root);
}

// In the order of the stages, so that a sum's bits do not depend on the size of the tensor that it is in.
void HostStages::reduce_directly(at::Tensor& flat, ReduceOp op, int root) {
  const bool is_here = root < 0 || root == parts_.flat->rank();
  at::Tensor of_all;
  if (is_here) of_all = at::empty({world_size_ * flat.numel()}, flat.options());
  if (root < 0) {
    parts_.flat->all_gather(of_all, flat);
  } else {
    parts_.flat->gather(of_all, flat, root);
  }
  if (is_here) reduce_in_host_order(flat, of_all, layout_, op);
}

void HostStages::reduce_between(at::Tensor& slice, ReduceOp op, int root) {
  if (root < 0) {
    parts_.lane->all_reduce(slice, op_of_stages(layout_, op));
  } else {
    parts_.lane->reduce(slice, layout_.host_of(root), op_of_stages(layout_, op));
  }
  if (op_of_stages(layout_, op) != op) slice.div_(world_size_);
}

void HostStages::reduce_by_one_lane(at::Tensor& flat, ReduceOp op, int root) {
  parts_.local->reduce(flat, 0, op_of_stages(layout_, op));
  if (layout_.place == 0) reduce_between(flat, op, root);
  if (receives(root)) parts_.local->broadcast(flat, 0);
}

void HostStages::reduce_slices(at::Tensor& flat, ReduceOp op, int root) {
  const std::int64_t piece = kStagePieceBytes / flat.element_size() / layout_.lanes * layout_.lanes;
  if (root < 0 && flat.numel() > piece) return reduce_in_pieces(flat, op, piece);
  at::Tensor slice = at::empty({flat.numel() / layout_.lanes}, flat.options());
  parts_.local->reduce_scatter(slice, flat, op_of_stages(layout_, op));
  reduce_between(slice, op, root);
  if (receives(root)) parts_.local->all_gather(flat, slice);
}

// While the network carries one piece, shared memory works on the others.
void HostStages::reduce_in_pieces(at::Tensor& flat, ReduceOp op, std::int64_t piece) {
  struct Piece {
    at::Tensor whole;
    at::Tensor slice;
    std::shared_ptr<Work> between;
  };
  std::vector<Piece> pieces;
  for (std::int64_t begin = 0; begin < flat.numel(); begin += piece) {
    const std::int64_t count = std::min(piece, flat.numel() - begin);
    Piece next{flat.narrow(0, begin, count), at::empty({count / layout_.lanes}, flat.options()), nullptr};
    parts_.local->reduce_scatter(next.slice, next.whole, op);
    next.between = parts_.lane->all_reduce_async(next.slice, op);
    pieces.push_back(std::move(next));
  }
  for (Piece& each : pieces) {
    each.between->wait();
    parts_.local->all_gather(each.whole, each.slice);
  }
}

void HostStages::reduce_uneven(at::Tensor& flat, ReduceOp op, int root) {
  for (int lane = 0; lane < layout_.lanes; ++lane) {
    at::Tensor slice = slice_of(flat, lane);
    parts_.local->reduce(slice, lane, op_of_stages(layout_, op));
  }
  if (parts_.lane) {
    at::Tensor slice = slice_of(flat, layout_.place);
    reduce_between(slice, op, root);
  }
  for (int lane = 0; receives(root) && lane < layout_.lanes; ++lane) {
    at::Tensor slice = slice_of(flat, lane);
    parts_.local->broadcast(slice, lane);
  }
}

void HostStages::broadcast(at::Tensor& tensor, int root) {
  at::Tensor flat = flat_view(tensor);
  if (direct(flat)) return parts_.flat->broadcast(flat, root);
  const int source = layout_.host_of(root);
  if (layout_.host == source) parts_.local->broadcast(flat, layout_.place_of(root));
  if (one_lane(flat)) {
    if (layout_.place == 0) parts_.lane->broadcast(flat, source);
    if (layout_.host != source) parts_.local->broadcast(flat, 0);
    return;
  }
  if (parts_.lane) {
    at::Tensor slice = slice_of(flat, layout_.place);
    parts_.lane->broadcast(slice, source);
  }
  for (int lane = 0; layout_.host != source && lane < layout_.lanes; ++lane) {
    at::Tensor slice = slice_of(flat, lane);
    parts_.local->broadcast(slice, lane);
  }
}

void HostStages::all_gather(at::Tensor& out, const at::Tensor& in) {
  if (const auto found = parts_.one_copy.find(out)) return gather_for_host(out, in, found, false);
  if (const auto found = parts_.transient.find(out)) return gather_for_host(out, in, found, true);
  if (!layout_.equal || direct(in)) return parts_.flat->all_gather(out, in);
  const std::int64_t count = in.numel();
  const int hosts = layout_.host_count();
  at::Tensor of_lane = at::empty({hosts * count}, in.options());
  parts_.lane->all_gather(of_lane, in);
  at::Tensor of_all = at::empty({layout_.lanes * hosts * count}, in.options());  // by lane, then by host
  parts_.local->all_gather(of_all, of_lane);
  at::Tensor flat = flat_view(out);
  for (int lane = 0; lane < layout_.lanes; ++lane) {
    const std::vector<int> ranks = layout_.lane(lane);
    for (int host = 0; host < hosts; ++host) {
      const int rank = ranks[static_cast<std::size_t>(host)];
      flat.narrow(0, rank * count, count).copy_(of_all.narrow(0, (lane * hosts + host) * count, count));
    }
  }
}

// While the network carries one piece, the one before it is written.
void HostStages::gather_for_host(at::Tensor& out, const at::Tensor& in, const HostMemories::Found& memory,
                                 bool in_turn) {
  const at::Tensor own = flat_view(in);
  const at::Tensor flat = flat_view(out);
  const std::int64_t count = own.numel();
  const std::int64_t most = std::max<std::int64_t>(1, kStagePieceBytes / own.element_size() / world_size_);
  const std::vector<int> ranks = layout_.lane(layout_.place);
  PieceOfLane next = send_in_lane(own.narrow(0, 0, std::min(most, count)), count <= most);
  if (in_turn) parts_.local->barrier();
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const PieceOfLane piece = std::move(next);
    const std::int64_t length = std::min(most, count - begin);
    const std::int64_t after = begin + length;
    if (after < count) next = send_in_lane(own.narrow(0, after, std::min(most, count - after)), false);
    if (piece.between) piece.between->wait();
    memory.parts->access([&] {
      for (int host = 0; host < layout_.host_count(); ++host) {
        const int rank = ranks[static_cast<std::size_t>(host)];
        const at::Tensor received = piece.of_all.narrow(0, host * length, length);
        if (!memory.layout->is_plain()) {
          const std::size_t at = static_cast<std::size_t>(begin) * own.element_size();
          memory.layout->put(rank, static_cast<const std::byte*>(received.data_ptr()), at, received.nbytes(),
                             static_cast<std::byte*>(flat.data_ptr()));
          continue;
        }
        const at::Tensor place = flat.narrow(0, rank * count + begin, length);
        if (place.data_ptr() != piece.own.data_ptr()) place.copy_(received);
      }
    });
  }
  parts_.local->barrier();  // the other lanes have written their parts
}

HostStages::PieceOfLane HostStages::send_in_lane(const at::Tensor& own, bool waits) {
  PieceOfLane piece{own, at::empty({layout_.host_count() * own.numel()}, own.options()), nullptr};
  if (waits) {
    parts_.lane->all_gather(piece.of_all, own);
  } else {
    piece.between = parts_.lane->all_gather_async(piece.of_all, own);
  }
  return piece;
}

// Sums have the order of all_reduce, for every size: callers may rely on getting the same bits from either.
void HostStages::reduce_scatter(at::Tensor& out, const at::Tensor& in, ReduceOp op) {
  if (!layout_.equal || direct(in)) {
    at::Tensor of_all = at::empty({in.numel()}, in.options());
    parts_.flat->all_to_all(of_all, in);
    at::Tensor flat = flat_view(out);
    return reduce_in_host_order(flat, of_all, layout_, op);
  }
  parts_.lane->reduce_scatter(out, reduce_for_lane(in, out.numel(), op), op);
}

at::Tensor HostStages::reduce_for_lane(const at::Tensor& in, std::int64_t count, ReduceOp op) {
  const int hosts = layout_.host_count();
  at::Tensor of_lane = at::empty({hosts * count}, in.options());
  if (const auto copies = parts_.readable.find(in)) {
    reduce_where_it_lies(of_lane, *copies.parts, op);
    return of_lane;
  }
  const at::Tensor flat = flat_view(in);
  at::Tensor of_all = at::empty({layout_.lanes * hosts * count}, in.options());  // by lane, then by host
  for (int lane = 0; lane < layout_.lanes; ++lane) {
    const std::vector<int> ranks = layout_.lane(lane);
    for (int host = 0; host < hosts; ++host) {
      const int rank = ranks[static_cast<std::size_t>(host)];
      of_all.narrow(0, (lane * hosts + host) * count, count).copy_(flat.narrow(0, rank * count, count));
    }
  }
  parts_.local->reduce_scatter(of_lane, of_all, op);
  return of_lane;
}

void HostStages::reduce_where_it_lies(at::Tensor& of_lane, const SymmetricMemory& in, ReduceOp op) {
  const std::size_t count = static_cast<std::size_t>(of_lane.numel() / layout_.host_count());
  const std::size_t bytes = count * of_lane.element_size();
  const std::vector<int> ranks = layout_.lane(layout_.place);
  std::vector<const std::byte*> sources(static_cast<std::size_t>(in.world_size()));
  auto* destination = static_cast<std::byte*>(of_lane.data_ptr());
  parts_.local->barrier();  // every rank of the host has filled its copy
  in.access([&] {
    for (const int rank : ranks) {
      for (int place = 0; place < in.world_size(); ++place) {
        sources[static_cast<std::size_t>(place)] = in.copy(place) + static_cast<std::size_t>(rank) * bytes;
      }
      shm::reduce(element_of(of_lane.scalar_type()), reduction_of(op), sources.data(), in.world_size(), &destination, 1,
                  count);
      destination += bytes;
    }
  });
  parts_.local->barrier();  // every rank of the host has read: each may write to its copy again
}

void HostStages::barrier() { parts_.flat->barrier(); }

}  // namespace lockstep
