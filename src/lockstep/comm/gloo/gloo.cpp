#include "lockstep/comm/gloo/gloo.h"

#include <ATen/core/Tensor.h>

#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/gloo/bind_address.h"
#include "lockstep/comm/gloo/bring_up.h"
#include "lockstep/comm/gloo/collectives.h"
#include "lockstep/comm/gloo/mesh.h"
#include "lockstep/comm/gloo/signal_guard.h"
#include "lockstep/comm/gloo/supervisor.h"
#include "lockstep/comm/shm/reduce.h"

namespace lockstep {
namespace {

// The supervisor sees to deadlines, because it can say who is late. The mesh has its own guard for the case that the
// supervisor itself is held up, by a store that does not answer.
Deadline with_grace(Deadline deadline) {
  return deadline.is_never() ? deadline : Deadline::after(deadline.remaining() + std::chrono::seconds(2));
}

shm::Element element_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Double:
      return shm::Element::F64;
    case c10::ScalarType::Half:
      return shm::Element::F16;
    case c10::ScalarType::BFloat16:
      return shm::Element::BF16;
    case c10::ScalarType::Int:
      return shm::Element::I32;
    case c10::ScalarType::Long:
      return shm::Element::I64;
    case c10::ScalarType::Byte:
      return shm::Element::U8;
    default:
      return shm::Element::F32;
  }
}

shm::Reduction reduction_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Avg:
      return shm::Reduction::Avg;
    case ReduceOp::Min:
      return shm::Reduction::Min;
    case ReduceOp::Max:
      return shm::Reduction::Max;
    case ReduceOp::Product:
      return shm::Reduction::Product;
    default:
      return shm::Reduction::Sum;
  }
}

Reduction reduction_of(const Operation& operation) {
  const shm::Element element = element_of(operation.fingerprint.dtype);
  const shm::Reduction reduction = reduction_of(operation.fingerprint.op);
  return {shm::element_bytes(element), [=](std::byte* out, const std::vector<const std::byte*>& in, std::size_t count) {
            shm::reduce(element, reduction, in.data(), static_cast<int>(in.size()), &out, 1, count);
          }};
}

class GlooCommunicator : public Communicator {
 public:
  explicit GlooCommunicator(Membership membership) : Communicator(std::move(membership)) {
    const Deadline deadline = Deadline::after(this->membership().timeout);
    MeshOptions options;
    options.rank = rank();
    options.size = world_size();
    options.address = gloo_bind_address(this->membership(), deadline);
    options.on_failure = [this](const MeshError& error) {
      if (supervisor_) supervisor_->report(error);
    };
    mesh_ = make_mesh(options);
    collectives_.emplace(*mesh_, rank(), world_size());
    const std::vector<std::string> addresses = exchange_addresses(this->membership(), *mesh_, deadline);
    supervisor_ = std::make_unique<Supervisor>(this->membership(), mesh_);
    connect(addresses, deadline);
  }

  ~GlooCommunicator() override {
    stop_queues();
    supervisor_.reset();
    mesh_->break_connections();
  }

  const char* engine() const override { return "gloo"; }

 private:
  void connect(const std::vector<std::string>& addresses, Deadline deadline) {
    Activity activity;
    activity.coming_up = true;
    perform(activity, deadline, [&] {
      for (int peer = 0; peer < world_size(); ++peer) {
        if (peer != rank()) mesh_->connect(peer, addresses[static_cast<std::size_t>(peer)]);
      }
    });
  }

  // One operation as the supervisor and the mesh's guard see it.
  class Watched {
   public:
    Watched(Supervisor& supervisor, Mesh& mesh, const Activity& activity, Deadline deadline)
        : supervisor_(supervisor),
          mesh_(mesh),
          id_(supervisor.enter(activity, deadline)),
          guard_(mesh.guard(with_grace(deadline))) {}
    ~Watched() {
      mesh_.release_guard(guard_);
      supervisor_.leave(id_, ended_well_);
    }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    void end_well() { ended_well_ = true; }

   private:
    Supervisor& supervisor_;
    Mesh& mesh_;
    const std::uint64_t id_;
    const std::uint64_t guard_;
    bool ended_well_ = false;
  };

  template <typename Body>
  void perform(const Activity& activity, Deadline deadline, const Body& body) {
    SignalGuard signals;
    Watched watched(*supervisor_, *mesh_, activity, deadline);
    try {
      body();
      watched.end_well();
    } catch (const MeshError& error) {
      signals.failed();
      supervisor_->raise(error);
    }
  }

  template <typename Body>
  void collective(const Operation& operation, const Body& body) {
    Activity activity;
    activity.fingerprint = operation.fingerprint;
    perform(activity, operation.deadline, [&] {
      collectives_->begin(slot_of(activity, rank()));
      // Where there is nothing to send the ranks meet all the same, so that one that has something is found out.
      if (operation.fingerprint.count == 0) {
        collectives_->barrier();
      } else {
        body(*collectives_);
      }
    });
  }

  void do_all_reduce(at::Tensor& tensor, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.all_reduce(tensor.data_ptr(), count_of(operation), reduction_of(operation));
    });
  }
  void do_broadcast(at::Tensor& tensor, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.broadcast(tensor.data_ptr(), bytes_of(operation), operation.fingerprint.root);
    });
  }
  void do_reduce(at::Tensor& tensor, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.reduce(tensor.data_ptr(), count_of(operation), operation.fingerprint.root, reduction_of(operation));
    });
  }
  void do_all_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation,
               [&](MeshCollectives& mesh) { mesh.all_gather(out.data_ptr(), in.data_ptr(), bytes_of(operation)); });
  }
  void do_reduce_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.reduce_scatter(out.data_ptr(), in.data_ptr(), count_of(operation), reduction_of(operation));
    });
  }
  void do_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.gather(out.defined() ? out.data_ptr() : nullptr, in.data_ptr(), bytes_of(operation),
                  operation.fingerprint.root);
    });
  }
  void do_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.scatter(out.data_ptr(), in.defined() ? in.data_ptr() : nullptr, bytes_of(operation),
                   operation.fingerprint.root);
    });
  }
  void do_all_to_all(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation,
               [&](MeshCollectives& mesh) { mesh.all_to_all(out.data_ptr(), in.data_ptr(), bytes_of(operation)); });
  }
  void do_barrier(const Operation& operation) override {
    collective(operation, [](MeshCollectives& mesh) { mesh.barrier(); });
  }

  void do_send(const at::Tensor& tensor, const Operation& operation) override {
    const Activity activity = message_of(operation);
    perform(activity, operation.deadline, [&] {
      const auto buffer = mesh_->buffer(tensor.data_ptr(), bytes_of(operation));
      buffer->send(operation.fingerprint.root, slot_of(activity, rank()), 0, bytes_of(operation));
      buffer->wait_sent();
    });
  }
  void do_recv(at::Tensor& tensor, const Operation& operation) override {
    const Activity activity = message_of(operation);
    perform(activity, operation.deadline, [&] {
      const auto buffer = mesh_->buffer(tensor.data_ptr(), bytes_of(operation));
      buffer->recv(operation.fingerprint.root, slot_of(activity, rank()), 0, bytes_of(operation));
      buffer->wait_received();
    });
  }

  void do_abort() override { supervisor_->abort(why_ended()); }

  static std::size_t count_of(const Operation& operation) {
    return static_cast<std::size_t>(operation.fingerprint.count);
  }
  static std::size_t bytes_of(const Operation& operation) {
    return count_of(operation) * c10::elementSize(operation.fingerprint.dtype);
  }

  Activity message_of(const Operation& operation) {
    Activity activity;
    activity.fingerprint = operation.fingerprint;
    activity.tag = operation.tag;
    const std::lock_guard<std::mutex> lock(mutex_);
    activity.number = messages_[{operation.fingerprint.kind, operation.fingerprint.root, operation.tag}]++;
    return activity;
  }

  std::shared_ptr<Mesh> mesh_;
  std::unique_ptr<Supervisor> supervisor_;
  std::optional<MeshCollectives> collectives_;                             // one at a time
  std::mutex mutex_;                                                       // guards the one below
  std::map<std::tuple<OperationKind, int, int>, std::uint64_t> messages_;  // by direction, peer and tag
};

}  // namespace

std::unique_ptr<Communicator> make_gloo_communicator(Membership membership) {
  return std::make_unique<GlooCommunicator>(std::move(membership));
}

}  // namespace lockstep
