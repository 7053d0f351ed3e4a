#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/symmetric_memory.h"
#include "lockstep/detail/comm/operation.h"
#include "lockstep/detail/comm/work.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

class WorkQueue;

/// Collectives over a fixed group of ranks; every rank makes the same calls in the same order.
///
/// Tensors: dense, with the same dtype and number of elements on every rank; they may be empty or not contiguous.
/// Operations that only move values take any dtype. Operations that reduce take fp32, fp64, fp16 and bf16 (summed in
/// fp32), int32, int64 and uint8. A tensor is a handle, so calls write to the memory of a `const` tensor, as LibTorch's
/// in-place functions do: `all_reduce(parameter.grad())`. One thread at a time per object; `abort` and `Work` may be
/// called from any thread.
///
/// `out` and `in` must not share memory, with one exception: the smaller tensor may be exactly this rank's part of the
/// larger one (`in` of all_gather and gather inside `out`, `out` of reduce_scatter and scatter inside `in`). An `out`
/// whose elements share memory with each other, such as an expanded tensor, is refused.
///
/// Errors: all calls throw Error, which names rank, host, engine, group and operation, if arguments are wrong (then
/// nothing was sent), if a peer is lost, if the ranks disagree on the operation, or (TimeoutError) if the operation
/// takes longer than the group's timeout. After an Error of the last three kinds the group is dead and every later call
/// throws: build a new one.
///
/// In a process that was forked from this one, a copy of a communicator can only be destroyed, and its destructor does
/// nothing.
class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return membership_.rank; }  ///< in [0, world_size())
  int world_size() const { return membership_.world_size; }
  const Membership& membership() const { return membership_; }
  virtual const char* engine() const = 0;                     ///< "gloo", "shm", ...
  virtual c10::Device device() const { return {c10::kCPU}; }  ///< where the engine's tensors are
  c10::DeviceType device_type() const { return device().type(); }

  /// The communicator of these ranks for tensors on `device`: this one, or one of another engine over the same ranks.
  /// The other one connects at the first call, which is collective, and lives as long as this one. The calls below
  /// choose it by themselves: a group over shared memory carries CUDA tensors by NCCL, and a group over NCCL carries
  /// CPU tensors by the fastest engine that fits.
  /// @throws Error  if this build or this host has no engine for such tensors
  Communicator& carrier(c10::Device device);

  /// In place: `tensor` becomes the reduction over all ranks, the same bits on every rank.
  void all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::Sum);
  /// In place: `tensor` becomes the `tensor` of `root`.
  void broadcast(const at::Tensor& tensor, int root = 0);
  /// In place: on `root`, `tensor` becomes the reduction over all ranks; on other ranks its content is unspecified
  /// afterwards.
  void reduce(const at::Tensor& tensor, int root = 0, ReduceOp op = ReduceOp::Sum);
  /// `out` [world_size * n] becomes all ranks' `in` [n], in rank order.
  void all_gather(const at::Tensor& out, const at::Tensor& in);
  /// `out` [n] becomes this rank's shard of the reduction over ranks of `in` [world_size * n].
  void reduce_scatter(const at::Tensor& out, const at::Tensor& in, ReduceOp op = ReduceOp::Sum);
  /// On `root`, `out` [world_size * n] becomes all ranks' `in` [n]; on other ranks `out` is ignored and may be
  /// undefined.
  void gather(const at::Tensor& out, const at::Tensor& in, int root = 0);
  /// `out` [n] becomes this rank's part of `root`'s `in` [world_size * n]; `in` is ignored on other ranks.
  void scatter(const at::Tensor& out, const at::Tensor& in, int root = 0);
  /// `in` and `out` [world_size * n]: part i of `in` goes to rank i, part i of `out` comes from rank i.
  void all_to_all(const at::Tensor& out, const at::Tensor& in);
  /// Point to point: the k-th send to a rank with a tag matches that rank's k-th recv from here with the same tag.
  void send(const at::Tensor& tensor, int to, int tag = 0);
  void recv(const at::Tensor& tensor, int from, int tag = 0);
  /// Returns when every rank has called it.
  void barrier();

  /// Asynchronous forms: they return once the operation is queued, however many are pending and however late the other
  /// ranks are. The operation owns its tensors until `Work::wait` returns. Operations end in the order of the calls,
  /// but for messages of different tags over engine nccl.
  std::shared_ptr<Work> all_reduce_async(at::Tensor tensor, ReduceOp op = ReduceOp::Sum);
  std::shared_ptr<Work> broadcast_async(at::Tensor tensor, int root = 0);
  std::shared_ptr<Work> reduce_async(at::Tensor tensor, int root = 0, ReduceOp op = ReduceOp::Sum);
  std::shared_ptr<Work> all_gather_async(at::Tensor out, at::Tensor in);
  std::shared_ptr<Work> reduce_scatter_async(at::Tensor out, at::Tensor in, ReduceOp op = ReduceOp::Sum);
  std::shared_ptr<Work> gather_async(at::Tensor out, at::Tensor in, int root = 0);
  std::shared_ptr<Work> scatter_async(at::Tensor out, at::Tensor in, int root = 0);
  std::shared_ptr<Work> all_to_all_async(at::Tensor out, at::Tensor in);
  std::shared_ptr<Work> isend(at::Tensor tensor, int to, int tag = 0);
  std::shared_ptr<Work> irecv(at::Tensor tensor, int from, int tag = 0);
  std::shared_ptr<Work> barrier_async();
  /// Advances operations that were started here and are not finished, without waiting for any rank. A thread that
  /// computes should call it at intervals: an engine without a thread of its own reduces nothing in between. Costs next
  /// to nothing if nothing is pending. Never throws: `Work::wait` throws the errors.
  void progress() { do_progress(); }

  /// Memory that this engine reduces without a copy; contiguous, with unspecified content. Collective if the engine
  /// shares memory: every rank makes the same calls with the same arguments.
  virtual at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType dtype);
  /// All ranks' copies of memory from `allocate`, if the ranks share memory; `tensor` may be a contiguous part of it.
  /// Null if this engine does not share memory, or `tensor` is other memory. Not collective.
  virtual std::shared_ptr<SymmetricMemory> symmetric_memory(const at::Tensor& tensor);

  /// A group of the ranks that passed the same `color`, ranked by `key`, then by their rank here. Collective.
  /// @return  null on ranks whose color is negative
  std::unique_ptr<Communicator> split(int color, int key = 0);

  /// Ends the group: pending operations here throw an Error with `reason`, and so do those of other ranks, which see
  /// their connections end. An operation that has ended here, also a barrier, may be pending elsewhere, and then fails
  /// there: it ends on a rank as soon as that rank has its result.
  void abort(const std::string& reason);
  /// Whether a call here, or the waiting for it, has thrown because the group has ended.
  bool has_thrown() const;

 protected:
  explicit Communicator(Membership membership);
  /// True in a process that was forked from this communicator's process. The other ranks would take this process for
  /// its parent, and the threads do not exist here: a derived destructor passes what it holds to `never_destroy` and
  /// does nothing else.
  bool is_forked_copy() const;
  /// Derived destructors call this first. It ends pending operations while the `do_*` functions still exist.
  void stop_queues();
  /// Why the group ended, which `do_abort` passes on to the other ranks; empty while the group lives.
  std::string why_ended() const;

  /// The arguments of one call. Operations in place have `out` alone; send has `in` alone.
  struct Request {
    OperationKind kind;
    at::Tensor out;
    at::Tensor in;
    int root = 0;  ///< or the other rank of send and recv
    ReduceOp op = ReduceOp::Sum;
    int tag = 0;
  };
  /// Calls the `do_*` of the request with its tensors in the form that engines take: contiguous, and as bytes if they
  /// are of a dtype that engines do not compute with.
  void dispatch(Request& request, const Operation& operation);

 private:
  /// The engine of groups that `split` makes; empty: the fastest that fits each group.
  virtual std::string engine_of_parts() const { return engine(); }
  // Engines override these. They block until the operation is done, and throw Error (TimeoutError at the deadline) with
  // what happened and a fix; this class adds `where`. Tensors are contiguous, may be empty, and have a checked dtype
  // and number of elements. Collectives arrive one at a time. Sends to one rank also arrive one at a time, and so do
  // receives from one rank, but sends and receives run beside each other and beside a collective: isend and irecv in
  // any order must not block each other.
  virtual void do_all_reduce(at::Tensor& tensor, const Operation& operation) = 0;
  virtual void do_broadcast(at::Tensor& tensor, const Operation& operation) = 0;
  virtual void do_reduce(at::Tensor& tensor, const Operation& operation) = 0;
  virtual void do_all_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) = 0;
  virtual void do_reduce_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) = 0;
  virtual void do_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) = 0;
  virtual void do_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) = 0;
  virtual void do_all_to_all(at::Tensor& out, const at::Tensor& in, const Operation& operation) = 0;
  virtual void do_send(const at::Tensor& tensor, const Operation& operation) = 0;
  virtual void do_recv(at::Tensor& tensor, const Operation& operation) = 0;
  virtual void do_barrier(const Operation& operation) = 0;
  /// Wakes blocked operations from another thread; they then throw.
  virtual void do_abort() = 0;
  /// Starts an all-reduce of memory from `allocate` without a thread, if the engine can; otherwise returns null, and
  /// the queue runs the operation.
  virtual std::shared_ptr<Work> do_start_all_reduce(at::Tensor& tensor, const Operation& operation);
  /// Runs the calling thread's share of what do_start_all_reduce has started. Does not throw.
  virtual void do_progress();
  /// Refuses a call that cannot be made at this moment, before anything is sent or counted. @throws Error
  virtual void check_moment(OperationKind) const {}
  /// Whether messages of different tags between two ranks also run beside each other: each tag then has a queue.
  virtual bool separates_tags() const { return false; }
  /// Begins one operation in the calling thread, in the order of the calls: on a device's stream, after all work that
  /// is already on the thread's current stream, or by posting its first messages. Never waits for other ranks.
  /// @return  the rest of the operation. It is called once, in the operation's turn, in any thread; it blocks until the
  /// operation is done, throws as `do_*` do, and keeps the tensors. Empty if nothing was begun: then the operation's
  /// `do_*` does all of it in its turn
  virtual std::function<void()> do_begin(const Request& request, const Operation& operation);

  void run(Request request);
  std::shared_ptr<Work> start(Request request);
  /// do_begin, with the errors of a call.
  std::function<void()> begin(const Request& request, const Operation& operation);
  Communicator& carrier_of(const Request& request);
  /// Checks the arguments and takes a sequence number. @throws Error  before anything is sent
  Fingerprint check(const Request& request);
  std::int64_t check_sizes(const Request& request, const std::string& what) const;
  void check_memory(const Request& request, const std::string& what) const;
  bool writes_out(const Request& request) const;
  void check_tensor(const at::Tensor& tensor, const std::string& what) const;
  void run_guarded(Request& request, const Operation& operation);
  /// The operation as a function for its turn in the queue. Its deadline runs from then on.
  std::function<void()> whole(Request request, Operation operation);
  /// Runs `body`. An exception from it ends the group, and the location is added to it.
  template <typename Body>
  void guard(const Fingerprint& fingerprint, const Body& body);
  /// Ends the group with the exception that is being handled, and throws the one that ended it.
  [[noreturn]] void fail_in(const Fingerprint& fingerprint);
  Operation operation_of(const Request& request, const Fingerprint& fingerprint) const;
  void call_engine(OperationKind kind, at::Tensor& out, const at::Tensor& in, const Operation& operation);
  WorkQueue& queue_of(const Operation& operation);
  /// Queues `body`. If that fails, the group ends, because the other ranks make this call.
  std::shared_ptr<Work> push(WorkQueue& queue, const Fingerprint& fingerprint, std::function<void()> body);
  void throw_if_dead();
  /// Ends the group with `failure`, unless an earlier failure ended it, and throws the failure that ended it.
  [[noreturn]] void fail(std::exception_ptr failure);
  void note_throw();
  std::string where(const Fingerprint* fingerprint) const;

  struct State;  // sequence numbers, queues, the error that ended the group
  Membership membership_;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
