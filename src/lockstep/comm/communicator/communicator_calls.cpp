// The public calls of Communicator, and the way of each to its engine: here, or in a queue's thread.
#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator/collective_trace.h"
#include "lockstep/comm/communicator/communicator_state.h"
#include "lockstep/comm/communicator/enclosing_operation.h"
#include "lockstep/comm/communicator/work_queue.h"

namespace lockstep {

void Communicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  run({OperationKind::AllReduce, tensor, {}, 0, op});
}
void Communicator::broadcast(const at::Tensor& tensor, int root) { run({OperationKind::Broadcast, tensor, {}, root}); }
void Communicator::reduce(const at::Tensor& tensor, int root, ReduceOp op) {
  run({OperationKind::Reduce, tensor, {}, root, op});
}
void Communicator::all_gather(const at::Tensor& out, const at::Tensor& in) { run({OperationKind::AllGather, out, in}); }
void Communicator::reduce_scatter(const at::Tensor& out, const at::Tensor& in, ReduceOp op) {
  run({OperationKind::ReduceScatter, out, in, 0, op});
}
void Communicator::gather(const at::Tensor& out, const at::Tensor& in, int root) {
  run({OperationKind::Gather, out, in, root});
}
void Communicator::scatter(const at::Tensor& out, const at::Tensor& in, int root) {
  run({OperationKind::Scatter, out, rank() == root ? in : at::Tensor(), root});
}
void Communicator::all_to_all(const at::Tensor& out, const at::Tensor& in) { run({OperationKind::AllToAll, out, in}); }
void Communicator::send(const at::Tensor& tensor, int to, int tag) {
  run({OperationKind::Send, {}, tensor, to, ReduceOp::Sum, tag});
}
void Communicator::recv(const at::Tensor& tensor, int from, int tag) {
  run({OperationKind::Recv, tensor, {}, from, ReduceOp::Sum, tag});
}
void Communicator::barrier() { run({OperationKind::Barrier, {}, {}}); }

std::shared_ptr<Work> Communicator::all_reduce_async(at::Tensor tensor, ReduceOp op) {
  return start({OperationKind::AllReduce, std::move(tensor), {}, 0, op});
}
std::shared_ptr<Work> Communicator::broadcast_async(at::Tensor tensor, int root) {
  return start({OperationKind::Broadcast, std::move(tensor), {}, root});
}
std::shared_ptr<Work> Communicator::reduce_async(at::Tensor tensor, int root, ReduceOp op) {
  return start({OperationKind::Reduce, std::move(tensor), {}, root, op});
}
std::shared_ptr<Work> Communicator::all_gather_async(at::Tensor out, at::Tensor in) {
  return start({OperationKind::AllGather, std::move(out), std::move(in)});
}
std::shared_ptr<Work> Communicator::reduce_scatter_async(at::Tensor out, at::Tensor in, ReduceOp op) {
  return start({OperationKind::ReduceScatter, std::move(out), std::move(in), 0, op});
}
std::shared_ptr<Work> Communicator::gather_async(at::Tensor out, at::Tensor in, int root) {
  return start({OperationKind::Gather, std::move(out), std::move(in), root});
}
std::shared_ptr<Work> Communicator::scatter_async(at::Tensor out, at::Tensor in, int root) {
  return start({OperationKind::Scatter, std::move(out), rank() == root ? std::move(in) : at::Tensor(), root});
}
std::shared_ptr<Work> Communicator::all_to_all_async(at::Tensor out, at::Tensor in) {
  return start({OperationKind::AllToAll, std::move(out), std::move(in)});
}
std::shared_ptr<Work> Communicator::isend(at::Tensor tensor, int to, int tag) {
  return start({OperationKind::Send, {}, std::move(tensor), to, ReduceOp::Sum, tag});
}
std::shared_ptr<Work> Communicator::irecv(at::Tensor tensor, int from, int tag) {
  return start({OperationKind::Recv, std::move(tensor), {}, from, ReduceOp::Sum, tag});
}
std::shared_ptr<Work> Communicator::barrier_async() { return start({OperationKind::Barrier, {}, {}}); }

// A template, because a small all-reduce notices the allocation of a std::function.
template <typename Body>
void Communicator::guard(const Fingerprint& fingerprint, const Body& body) {
  throw_if_dead();
  try {
    body();
  } catch (const std::exception&) {
    fail_in(fingerprint);
  }
}

Operation Communicator::operation_of(const Request& request, const Fingerprint& fingerprint) const {
  Operation operation;
  operation.fingerprint = fingerprint;
  operation.deadline = membership_.deadline();
  operation.tag = request.tag;
  operation.enclosing_mark = EnclosingOperation::mark();
  const auto copied = [](const at::Tensor& tensor) {
    return tensor.defined() && (!tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg());
  };
  operation.staged = copied(request.out) || copied(request.in);
  return operation;
}

void Communicator::run_guarded(Request& request, const Operation& operation) {
  guard(operation.fingerprint, [&] { dispatch(request, operation); });
}

std::function<void()> Communicator::begin(const Request& request, const Operation& operation) {
  std::function<void()> rest;
  guard(operation.fingerprint, [&] { rest = do_begin(request, operation); });
  if (!rest) return nullptr;
  return [this, fingerprint = operation.fingerprint, rest = std::move(rest)] { guard(fingerprint, rest); };
}

std::function<void()> Communicator::whole(Request request, Operation operation) {
  return [this, request = std::move(request), operation = std::move(operation)]() mutable {
    operation.deadline = membership_.deadline();  // a long queue of operations is no reason to give up
    run_guarded(request, operation);
  };
}

WorkQueue& Communicator::queue_of(const Operation& operation) {
  const Fingerprint& fingerprint = operation.fingerprint;
  if (!is_point_to_point(fingerprint.kind)) return *state_->collectives;
  const int tag = separates_tags() ? operation.tag : 0;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  auto& queue = state_->messages[{fingerprint.kind, fingerprint.root, tag}];
  if (!queue) queue = std::make_unique<WorkQueue>();
  return *queue;
}

std::shared_ptr<Work> Communicator::push(WorkQueue& queue, const Fingerprint& fingerprint, std::function<void()> body) {
  std::shared_ptr<Work> work;
  guard(fingerprint, [&] { work = queue.push(std::move(body)); });
  return work;
}

std::shared_ptr<Work> Communicator::start(Request request) {
  if (Communicator& other = carrier_of(request); &other != this) return other.start(std::move(request));
  throw_if_dead();
  const Fingerprint fingerprint = check(request);
  const Operation operation = operation_of(request, fingerprint);
  WorkQueue& queue = queue_of(operation);
  if (auto rest = begin(request, operation)) return push(queue, fingerprint, std::move(rest));
  if (fingerprint.kind == OperationKind::AllReduce && request.out.is_contiguous() && !request.out.is_neg() &&
      queue.idle()) {
    std::shared_ptr<Work> work;
    guard(fingerprint, [&] { work = do_start_all_reduce(request.out, operation); });
    if (work) return work;
  }
  return push(queue, fingerprint, whole(std::move(request), operation));
}

void Communicator::run(Request request) {
  if (Communicator& other = carrier_of(request); &other != this) return other.run(std::move(request));
  throw_if_dead();
  const Fingerprint fingerprint = check(request);
  const CollectiveTrace trace(membership_, fingerprint, request.out.defined() ? request.out : request.in);
  const Operation operation = operation_of(request, fingerprint);
  WorkQueue& queue = queue_of(operation);
  std::function<void()> rest = begin(request, operation);
  // With an idle queue, in this thread: saves two thread switches.
  if (queue.idle()) return rest ? rest() : run_guarded(request, operation);
  if (!rest) rest = whole(std::move(request), operation);
  push(queue, fingerprint, std::move(rest))->wait();
}

}  // namespace lockstep
