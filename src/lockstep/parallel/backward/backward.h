#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator/reduced_elements.h"
#include "lockstep/parallel/agreement/step_position.h"
#include "lockstep/parallel/backward/backward_context.h"
#include "lockstep/parallel/backward/backward_part.h"
#include "lockstep/parallel/backward/bucket_queue.h"
#include "lockstep/parallel/backward/gradient_keeper.h"
#include "lockstep/parallel/backward/make_parts.h"
#include "lockstep/parallel/backward/static_graph.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/reducer/bucket_layout.h"
#include "lockstep/parallel/uneven_inputs.h"

namespace lockstep {

struct ReducerOptions {
  BucketCaps bucket_caps;
  bool static_graph = false;
  bool gets_memory_later = false;  ///< see GradientBuckets::Options
  bool counts_updates = false;     ///< with slices: the ranks compare the number of the update
  int module = 0;                  ///< WrappedModule::number
};

/// A synchronised backward, from its first gradient to the averages of all ranks. It knows neither forward nor hooks of
/// autograd: Reducer calls it. Buckets are the BucketQueue's, and what else ranks compare or exchange is in parts.
///
/// Everything is under one lock, which the caller takes, unless a function says that it takes it.
class Backward {
 public:
  /// Collective. @param parameters  the same on every rank
  Backward(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
           const ReducerOptions& options);

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock<std::mutex>(mutex_); }

  bool is_running() const { return state_ != State::None; }
  /// @param task  expires when autograd's engine drops this backward
  void begin(const std::shared_ptr<void>& task);
  /// It has reached a parameter.
  void reach();
  /// It has added to the parameter's gradient, or to one that another wrapper averages. May send full buckets.
  void gradient_arrived(std::size_t parameter);
  void gradient_passed(std::size_t parameter);
  /// It is over: reduces the remaining buckets and gives parameters their gradients. Collective.
  /// @return  false if it has reached no parameter, and nothing was done
  bool finish();
  /// It was cut off by an exception. @throws Error  if gradients had been sent; the group then ends
  void drop();
  /// Takes part in a backward of the other ranks without gradients. Collective. @return  whether no rank has inputs
  /// left
  bool join();

  /// For slices, whose backwards are not synchronised. All slices' gradients of this rank are added up. Takes the lock.
  void begin_sums();
  /// The buckets hold averages over all slices or, if they are handed over, what the keeper needs. Tells the ranks
  /// about each other as the end of a backward does, and sets `grad`. Takes the lock. Collective.
  /// @param contributed  by parameter: this rank has a gradient
  /// @throws AgreedError  if nothing is handed over, and ranks differ in the context's `update`
  void end_sums(const std::vector<std::uint8_t>& contributed, double waited_s);

  /// @throws Error  if a hook is registered already or a backward has run
  void register_hook(std::unique_ptr<CommunicationHook> hook);
  /// As BucketQueue's.
  void hand_over(const std::vector<std::size_t>& kept, GradientKeeper& keeper);
  void take_back();
  /// Removes all gradients from their parameters, as in a step without inputs.
  void drop_gradients();
  /// Parameters got other memory.
  void note_moved(std::size_t dense, std::size_t sparse);

  BucketQueue& queue() { return queue_; }
  GradientBuckets& buckets() { return queue_.buckets(); }
  BackwardContext& context() { return context_; }
  /// Whether a synchronised backward has ended.
  bool has_run() const { return has_run_; }

  /// Runs `body`, in which the ranks meet. @param call  "a backward". @throws what it throws, with what is likely in
  /// training: loops of different lengths, or, with a fused optimizer, a step that a rank has left out
  template <typename Body>
  void meet(const char* call, const Body& body) const {
    const UncountedReductions of_this_wrapper;
    const auto advised = [&] { advise_on_uneven_inputs(body); };
    queue_.keeper().has_steps()
        ? with_positions_of_ranks(*context_.communicator, context_.place.position(), call, advised)
        : advised();
  }

 private:
  enum class State {
    None,
    Begun,
    Reached,  ///< it has reached a parameter
  };

  /// A bucket may have left with gradients of other wrappers alone.
  bool is_reached() const { return state_ == State::Reached || queue_.has_sent(); }
  void reduce();
  void exchange_flags();
  void send_flags();
  void meet_parts(bool has_inputs);

  std::mutex mutex_;
  BackwardContext context_;
  BucketQueue queue_;
  StaticGraph graph_;
  std::vector<std::unique_ptr<BackwardPart>> parts_;
  State state_ = State::None;
  bool has_run_ = false;
};

}  // namespace lockstep
