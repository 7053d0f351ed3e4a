#include "lockstep/comm/shm/shm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <functional>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/home_process.h"
#include "lockstep/comm/reduce/elements.h"
#include "lockstep/comm/shm/announced_operation.h"
#include "lockstep/comm/shm/collectives.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/join.h"
#include "lockstep/comm/shm/memory/allocations.h"
#include "lockstep/comm/shm/memory/memory_sharing.h"
#include "lockstep/comm/shm/memory/transient_pages.h"
#include "lockstep/comm/shm/operation_order.h"
#include "lockstep/comm/shm/point_to_point.h"
#include "lockstep/comm/timed_work.h"
#include "lockstep/comm/transient_memory.h"

namespace lockstep {
namespace {

using shm::Call;
using shm::Elements;

std::byte* bytes_at(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

Elements elements_of(const at::Tensor& tensor) {
  return {bytes_at(tensor), static_cast<std::size_t>(tensor.numel()), element_of(tensor.scalar_type())};
}

// The core's errors do not contain `where`; the base class adds it only to those of blocking calls, and records only
// those. The failure of a part that an engine made for itself is recorded by the whole group.
template <class Body>
void with_where(bool is_part, const std::string& where, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (cause_of(error) != nullptr && !is_part) record_failure(error);
    std::rethrow_exception(moved_to(error, where));
  }
}

/// Both engines: they differ in how ranks share memory and in whether a pointer is valid for all ranks.
class SharedMemoryCommunicator : public Communicator, public TransientMemoryEngine {
 public:
  SharedMemoryCommunicator(Membership membership, const char* engine, std::unique_ptr<shm::MemorySharing> sharing)
      : Communicator(std::move(membership)),
        engine_(engine),
        core_(std::make_shared<Core>(this->membership(), std::move(sharing))),
        has_thread_(wants_thread(*core_->group)) {}

  ~SharedMemoryCommunicator() override {
    if (is_forked_copy()) {
      never_destroy(std::move(core_));
      return;
    }
    stop_queues();
    core_->order.close();
    core_->group->leave();
  }

  const char* engine() const override { return engine_; }

  at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType dtype) override {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) {
      if (size < 0 || __builtin_mul_overflow(count, size, &count)) {
        throw Error(fmt::format("allocate: sizes {} make no tensor", fmt::join(sizes, " x ")), where(), "check them");
      }
    }
    const auto bytes = static_cast<std::size_t>(count);
    const std::size_t size = c10::elementSize(dtype);
    if (count > 0 && bytes > SIZE_MAX / size) {
      throw Error("allocate: there are too many elements", where(), "ask for less");
    }
    const auto buffer = allocate_bytes(bytes * size, shm::Supply::AtOnce);
    return at::from_blob(
        buffer->part(rank()), sizes, [buffer](void*) {}, at::TensorOptions().dtype(dtype));
  }

  std::shared_ptr<SymmetricMemory> symmetric_memory(const at::Tensor& tensor) override {
    if (!tensor.defined() || !tensor.is_contiguous()) return nullptr;
    const auto buffer = core_->allocations.find(bytes_at(tensor), tensor.nbytes());
    if (!buffer) return nullptr;
    SymmetricMemory::Parts parts;
    const std::ptrdiff_t offset = bytes_at(tensor) - buffer->part(rank());
    for (int other = 0; other < world_size(); ++other) parts.copies.push_back(buffer->part(other) + offset);
    parts.bytes = tensor.nbytes();
    parts.stride_bytes = buffer->part_bytes();
    parts.enter = [core = core_, is_part = membership().is_part(), here = where()] {
      with_where(is_part, here, [&] { core->group->begin_work(); });
    };
    parts.leave = [core = core_] { core->group->end_work(); };
    parts.keeper = buffer;
    return std::make_shared<SymmetricMemory>(std::move(parts));
  }

  TransientMemory allocate_transient(std::int64_t numel, at::ScalarType dtype) override {
    const std::size_t bytes = static_cast<std::size_t>(numel) * c10::elementSize(dtype);
    const auto buffer = allocate_bytes(shm::TransientPages::bytes_of_part(bytes, world_size()), shm::Supply::OnWrite);
    auto pages = std::make_shared<shm::TransientPages>(*core_->group, buffer, bytes);
    TransientMemory result;
    result.memory = at::from_blob(
        pages->data(), {numel}, [core = core_, pages](void*) {}, at::TensorOptions().dtype(dtype));
    result.file = buffer->take_file();
    result.parts = symmetric_memory(at::from_blob(buffer->part(rank()), {1}, at::TensorOptions().dtype(at::kByte)));
    result.leave = [core = core_, pages] { pages->leave(); };
    return result;
  }

 private:
  std::shared_ptr<shm::SymmetricBuffer> allocate_bytes(std::size_t bytes, shm::Supply supply) {
    std::shared_ptr<shm::SymmetricBuffer> buffer;
    with_where(membership().is_part(), where() + ", allocate", [&] {
      core_->order.finish_pending();  // the others may need this rank for them before they arrive here
      buffer = core_->allocations.allocate(bytes, membership().deadline(), supply);
    });
    return buffer;
  }

  /// The part with which started operations may outlive the communicator.
  struct Core {
    Core(const Membership& membership, std::unique_ptr<shm::MemorySharing> how)
        : sharing(std::move(how)),
          group(shm::join(membership, *sharing, shm::describe)),
          allocations(*group, *sharing),
          order(*group, allocations, sharing->one_address_space(), [membership] { return membership.deadline(); }),
          collectives(*group, order),
          point_to_point(*group, *sharing) {
      if (!sharing->one_address_space()) {
        group->on_stuck_writer([this] { allocations.detach(); });
      }
    }
    std::unique_ptr<shm::MemorySharing> sharing;
    std::unique_ptr<shm::Group> group;
    shm::Allocations allocations;
    shm::OperationOrder order;
    shm::Collectives collectives;
    shm::PointToPoint point_to_point;
  };

  class StartedWork : public TimedWork {
   public:
    StartedWork(std::shared_ptr<Core> core, std::shared_ptr<shm::InFlightAllReduce> started, bool is_part,
                std::string where)
        : core_(std::move(core)), started_(std::move(started)), is_part_(is_part), where_(std::move(where)) {}
    bool is_completed() override { return core_->order.poll(*started_); }
    void wait() override {
      with_where(is_part_, where_, [&] { core_->order.wait(*started_); });
    }
    std::int64_t ended_ns() override { return started_->ended_ns; }

   private:
    std::shared_ptr<Core> core_;
    std::shared_ptr<shm::InFlightAllReduce> started_;
    bool is_part_;
    std::string where_;
  };

  /// Whether the queue's thread runs started operations. It takes a core from the threads that compute, unless one is
  /// free; without it those threads do their share whenever they call.
  static bool wants_thread(const shm::Group& group) {
    if (const auto wanted = env_bool("LOCKSTEP_COMMUNICATION_THREAD")) return *wanted;
    return group.cores() > at::get_num_threads();
  }

  std::string where() const { return fmt::format("{}, engine {}", membership().where(), engine_); }

  // The group must know every error, or the other ranks would keep waiting.
  template <class Body>
  void guarded(Body&& body) {
    try {
      body();
    } catch (const std::exception& error) {
      core_->group->abort(error);
      throw;
    }
  }

  static Call call_of(const Operation& operation) {
    return {shm::announce(operation), operation.fingerprint.sequence, operation.deadline};
  }

  void do_all_reduce(at::Tensor& tensor, const Operation& operation) override {
    guarded([&] {
      core_->order.all_reduce(call_of(operation), elements_of(tensor), reduction_of(operation.fingerprint.op));
    });
  }
  void do_broadcast(at::Tensor& tensor, const Operation& operation) override {
    guarded([&] {
      core_->collectives.broadcast(call_of(operation), bytes_at(tensor), tensor.nbytes(), operation.fingerprint.root);
    });
  }
  void do_reduce(at::Tensor& tensor, const Operation& operation) override {
    guarded([&] {
      core_->collectives.reduce_to(call_of(operation), elements_of(tensor), reduction_of(operation.fingerprint.op),
                                   operation.fingerprint.root);
    });
  }
  void do_all_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    guarded([&] { core_->collectives.all_gather(call_of(operation), bytes_at(out), bytes_at(in), in.nbytes()); });
  }
  void do_reduce_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    guarded([&] {
      core_->collectives.reduce_scatter(call_of(operation), elements_of(out), bytes_at(in),
                                        reduction_of(operation.fingerprint.op));
    });
  }
  void do_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    const int root = operation.fingerprint.root;
    guarded([&] {
      core_->collectives.gather(call_of(operation), rank() == root ? bytes_at(out) : nullptr, bytes_at(in), in.nbytes(),
                                root);
    });
  }
  void do_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    const int root = operation.fingerprint.root;
    guarded([&] {
      core_->collectives.scatter(call_of(operation), bytes_at(out), rank() == root ? bytes_at(in) : nullptr,
                                 out.nbytes(), root);
    });
  }
  void do_all_to_all(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    guarded([&] {
      core_->collectives.all_to_all(call_of(operation), bytes_at(out), bytes_at(in),
                                    in.nbytes() / static_cast<std::size_t>(world_size()));
    });
  }
  void do_send(const at::Tensor& tensor, const Operation& operation) override {
    guarded([&] {
      core_->point_to_point.send(call_of(operation), bytes_at(tensor), tensor.nbytes(), operation.fingerprint.root,
                                 operation.tag);
    });
  }
  void do_recv(at::Tensor& tensor, const Operation& operation) override {
    guarded([&] {
      core_->point_to_point.receive(call_of(operation), bytes_at(tensor), tensor.nbytes(), operation.fingerprint.root,
                                    operation.tag);
    });
  }
  void do_barrier(const Operation& operation) override {
    guarded([&] { core_->collectives.barrier(call_of(operation)); });
  }
  void do_abort() override { core_->group->abort(why_ended()); }
  void do_progress() override { core_->order.progress(); }
  std::shared_ptr<Work> do_start_all_reduce(at::Tensor& tensor, const Operation& operation) override {
    if (has_thread_) return nullptr;
    std::shared_ptr<shm::InFlightAllReduce> started;
    guarded([&] {
      started = core_->order.start(call_of(operation), elements_of(tensor), reduction_of(operation.fingerprint.op),
                                   std::make_shared<at::Tensor>(tensor));
    });
    if (!started) return nullptr;
    std::string here = fmt::format("{}, {}", where(), operation.fingerprint.describe());
    return std::make_shared<StartedWork>(core_, std::move(started), membership().is_part(), std::move(here));
  }

  const char* engine_;
  std::shared_ptr<Core> core_;
  const bool has_thread_;
};

}  // namespace

std::unique_ptr<Communicator> make_shm_communicator(Membership membership) {
  return std::make_unique<SharedMemoryCommunicator>(std::move(membership), "shm", shm::share_between_processes());
}

std::unique_ptr<Communicator> make_thread_communicator(Membership membership) {
  return std::make_unique<SharedMemoryCommunicator>(std::move(membership), "thread", shm::share_between_threads());
}

}  // namespace lockstep
