// The engine: Communicator's operations by NCCL's operations on streams, watched by a Supervisor.
#include "lockstep/comm/nccl/nccl.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/home_process.h"
#include "lockstep/comm/failure/nccl_advice.h"
#include "lockstep/comm/mesh/bring_up/nccl_interface.h"
#include "lockstep/comm/mesh/bring_up/strangers.h"
#include "lockstep/comm/mesh/supervisor.h"
#include "lockstep/comm/nccl/nccl_call.h"
#include "lockstep/comm/nccl/nccl_connections.h"
#include "lockstep/comm/nccl/nccl_devices.h"
#include "lockstep/comm/nccl/nccl_marks.h"
#include "lockstep/comm/nccl/nccl_pairs.h"

namespace lockstep {
namespace {

// One operation that a supervisor watches, from the caller's thread to the waiting one. The supervisor may be destroyed
// first.
class Entered {
 public:
  Entered(const std::shared_ptr<Supervisor>& supervisor, const Activity& activity, Deadline deadline)
      : supervisor_(supervisor), id_(supervisor->enter(activity, deadline)) {}
  ~Entered() { leave(false); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  /// The operation's time runs from now on.
  void restart(Deadline deadline) {
    if (const auto supervisor = supervisor_.lock()) supervisor->restart(id_, deadline);
  }
  void leave(bool ended_well) {
    if (std::exchange(left_, true)) return;
    if (const auto supervisor = supervisor_.lock()) supervisor->leave(id_, ended_well);
  }

 private:
  std::weak_ptr<Supervisor> supervisor_;
  const std::uint64_t id_;
  bool left_ = false;
};

// The marks of the operation that this thread begins: its `do_*` exchanges them together with its data.
thread_local NcclMarks* marks_of_thread = nullptr;

class MarksScope {
 public:
  explicit MarksScope(NcclMarks& marks) { marks_of_thread = &marks; }
  ~MarksScope() { marks_of_thread = nullptr; }
  MarksScope(const MarksScope&) = delete;
  MarksScope& operator=(const MarksScope&) = delete;
};

class NcclCommunicator : public Communicator {
 public:
  explicit NcclCommunicator(Membership membership)
      : Communicator(std::move(membership)),
        device_(c10::kCUDA, static_cast<c10::DeviceIndex>(current_cuda_device(this->membership()))),
        stream_(std::make_shared<NcclStream>()),
        connections_(std::make_shared<NcclConnections>()),
        pairs_(std::make_unique<NcclPairs>(this->membership(), connections_)) {
    const Deadline deadline = this->membership().join_deadline();
    name_interface_for_nccl(this->membership(), deadline);
    check_devices_differ(this->membership(), device_.index(), deadline);
    warn_of_strangers(this->membership(), "nccl", "NCCL's ports");
    supervisor_ = std::make_shared<Supervisor>(this->membership(), connections_);
    Activity start;
    start.is_group_start = true;
    Entered entered(supervisor_, start, deadline);
    explain([&] {
      const ncclUniqueId id = share_nccl_id(*this->membership().store, "nccl/id", rank() == 0, *connections_);
      handle_ = std::make_shared<NcclHandle>(rank(), world_size(), id);
      connections_->add(handle_, stream_);
      handle_->wait_until_up();
    });
    entered.leave(true);
  }

  ~NcclCommunicator() override {
    if (is_forked_copy()) {
      never_destroy(std::move(pairs_));
      never_destroy(std::move(handle_));
      never_destroy(connections_);
      never_destroy(std::move(supervisor_));
      return;
    }
    stop_queues();
    supervisor_.reset();
  }

  const char* engine() const override { return "nccl"; }
  c10::Device device() const override { return device_; }

 private:
  void check_moment(OperationKind kind) const override { refuse_capture(to_string(kind), membership(), device_); }

  std::function<void()> do_begin(const Request& request, const Operation& operation) override {
    if (is_point_to_point(operation.fingerprint.kind)) return begin_message(request, operation);
    const Activity activity = activity_of(operation);
    const auto tensors = std::make_shared<Request>(request);
    const auto entered = std::make_shared<Entered>(supervisor_, activity, operation.deadline);
    auto line = std::make_shared<Line>(slot_of(activity, rank()), world_size());
    explain([&] {
      line->ready.record(c10::cuda::getCurrentCUDAStream(device_.index()));
      get_in_line(*line, *handle_, stream_->get(), *tensors, operation);
    });
    entered->restart(Deadline::never());  // until it is this operation's turn
    return [this, tensors, entered, line = std::move(line)]() mutable {
      const c10::cuda::CUDAGuard device(device_);  // a thread begins on device 0, and events would make a context there
      const auto own_line = std::move(line);
      entered->restart(membership().deadline());  // a long queue of operations is no reason to give up
      explain([&] { wait(*own_line, *handle_); });
      entered->leave(true);
    };
  }

  // The waiting thread sends the whole message, because the other side may arrive much later.
  std::function<void()> begin_message(const Request& request, const Operation& operation) {
    require_pair_of(operation);
    const Activity activity = numbers_.activity_of(operation);
    auto line = std::make_shared<Line>(slot_of(activity, rank()), 2);
    line->ready.record(c10::cuda::getCurrentCUDAStream(device_.index()));
    return [this, tensors = request, operation, activity, line = std::move(line)]() mutable {
      const c10::cuda::CUDAGuard device(device_);
      const auto own_line = std::move(line);
      Entered entered(supervisor_, activity, membership().deadline());
      explain([&] {
        const NcclPairs::Pair pair = pair_of(operation);
        get_in_line(*own_line, *pair.handle, pair.stream->get(), tensors, operation);
        wait(*own_line, *pair.handle);
      });
      entered.leave(true);
    };
  }

  // One queued operation: `ready` on the caller's stream, then the marks and the operation itself.
  struct Line {
    Line(std::uint64_t mark, int ranks) : marks(mark, ranks) {}
    c10::Event ready{c10::kCUDA};
    NcclMarks marks;
    c10::Event done{c10::kCUDA};
  };

  void get_in_line(Line& line, NcclHandle& handle, const c10::cuda::CUDAStream& stream, Request& request,
                   const Operation& operation) {
    const c10::cuda::CUDAStreamGuard current(stream);
    line.ready.block(stream);
    line.marks.write(stream);
    {
      const MarksScope marks(line.marks);
      dispatch(request, operation);
    }
    line.marks.exchange_if_not_begun(handle, stream);  // with a barrier, or with empty tensors
    line.marks.read();
    line.done.record(stream);
  }

  void wait(Line& line, NcclHandle& handle) {
    connections_->wait(line.done, handle);
    const std::vector<int> different = line.marks.different();
    if (!different.empty()) {
      // The supervisors exchange what each rank is in, and name the ranks that disagree.
      fail(MeshError(MeshError::Kind::Broken, fmt::format("the ranks disagree on their operation, {} with this one",
                                                          fmt::join(different, " and "))));
    }
  }

  // While an operation may still write to its tensors, they are held by the frames that this exception ends.
  [[noreturn]] void fail(const MeshError& error) {
    supervisor_->report(error);
    connections_->break_connections();
    supervisor_->raise(error);
  }

  template <typename Body>
  void explain(const Body& body) {
    std::string trouble;
    try {
      return body();
    } catch (const NcclAborted& error) {
      fail(MeshError(MeshError::Kind::Broken, error.what()));
    } catch (const NcclError& error) {
      fail(MeshError(MeshError::Kind::Failed, "NCCL failed: " + std::string(error.what()),
                     error.peer_is_lost() ? others() : std::vector<int>(), advice_after(error.what())));
    } catch (const c10::Error& error) {
      trouble = error.what_without_backtrace();
    }
    supervisor_->abort("the CUDA device failed: " + trouble);
    throw Error("the CUDA device failed: " + trouble, "this group", advice_after(trouble));
  }

  std::vector<int> others() const {
    std::vector<int> ranks;
    for (int other = 0; other < world_size(); ++other) {
      if (other != rank()) ranks.push_back(other);
    }
    return ranks;
  }

  NcclPairs::Pair pair_of(const Operation& operation) {
    const bool sends = operation.fingerprint.kind == OperationKind::Send;
    const int peer = operation.fingerprint.root;
    return pairs_->get(sends ? rank() : peer, sends ? peer : rank(), operation.tag);
  }

  void require_pair_of(const Operation& operation) {
    const bool sends = operation.fingerprint.kind == OperationKind::Send;
    const int peer = operation.fingerprint.root;
    try {
      pairs_->require(sends ? rank() : peer, sends ? peer : rank(), operation.tag);
    } catch (const Error& error) {
      supervisor_->abort(error.happened());
      throw;
    }
  }

  // A connection is made, and a message waits, in the turn of its tag: the other side may have another order of tags.
  bool separates_tags() const override { return true; }

  static NcclCall call_of(NcclHandle& handle, const Operation& operation) {
    return NcclCall(handle, operation, *marks_of_thread);
  }

  // These run inside get_in_line, whose stream is the current one.
  void do_all_reduce(at::Tensor& tensor, const Operation& operation) override {
    call_of(*handle_, operation).all_reduce(tensor);
  }
  void do_broadcast(at::Tensor& tensor, const Operation& operation) override {
    call_of(*handle_, operation).broadcast(tensor);
  }
  void do_reduce(at::Tensor& tensor, const Operation& operation) override {
    call_of(*handle_, operation).reduce(tensor);
  }
  void do_all_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    call_of(*handle_, operation).all_gather(out, in);
  }
  void do_reduce_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    call_of(*handle_, operation).reduce_scatter(out, in);
  }
  void do_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    call_of(*handle_, operation).gather(out, in, rank(), world_size());
  }
  void do_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    call_of(*handle_, operation).scatter(out, in, rank(), world_size());
  }
  void do_all_to_all(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    call_of(*handle_, operation).all_to_all(out, in, world_size());
  }
  void do_send(const at::Tensor& tensor, const Operation& operation) override {
    call_of(*pair_of(operation).handle, operation).send(tensor, kReceiver);
  }
  void do_recv(at::Tensor& tensor, const Operation& operation) override {
    call_of(*pair_of(operation).handle, operation).recv(tensor, kSender);
  }
  void do_barrier(const Operation&) override {}  // the exchange of marks was a barrier

  void do_abort() override { supervisor_->abort(why_ended()); }

  const c10::Device device_;
  const std::shared_ptr<NcclStream> stream_;
  const std::shared_ptr<NcclConnections> connections_;
  std::unique_ptr<NcclPairs> pairs_;
  std::shared_ptr<Supervisor> supervisor_;
  std::shared_ptr<NcclHandle> handle_;  // of all ranks
  MessageNumbers numbers_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Membership membership) {
  return std::make_unique<NcclCommunicator>(std::move(membership));
}

}  // namespace lockstep
