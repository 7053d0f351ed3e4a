#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "lockstep/comm/process_group.h"
#include "lockstep/elastic/elastic_state.h"

namespace lockstep {

class ElasticProgress;

/// The part of ElasticRun that does not depend on the type of the wrapper.
class ElasticRunBase {
 public:
  virtual ~ElasticRunBase();
  ElasticRunBase(const ElasticRunBase&) = delete;
  ElasticRunBase& operator=(const ElasticRunBase&) = delete;

  /// The ranks that there are now.
  /// @throws UsageError  after a failure that has left none
  const std::shared_ptr<Communicator>& group() const;
  /// Steps that are made, those before the run included (ElasticState::first_step); in a step's body, the number of
  /// this step, from 0. A process that takes a lost rank's place begins where the others are, so compute epoch and
  /// batch from it.
  std::int64_t step() const;
  /// Ends the run, after the same step on all ranks. The wrapper is destroyed, and an optimizer that it has fused gets
  /// its whole state on every rank. Without this call a warning says that the others take this rank for lost.
  /// Collective.
  /// @throws UsageError  within a step or `wrap`, or after a call that has failed
  void finish();

 protected:
  ElasticRunBase(const ElasticState& state, const ProcessGroupOptions& options);
  void begin();
  void run_step(const std::function<void()>& body);
  void require_wrapped() const;

 private:
  virtual void wrap() = 0;
  virtual void unwrap() = 0;
  void alone(const char* call, const std::function<void()>& work);
  void attempt(const std::function<void()>& work);
  void leave_group();
  void require_running(const char* call) const;

  const ElasticState state_;
  std::unique_ptr<ElasticProgress> progress_;
  bool is_wrapped_ = false;                 // for the present group
  std::atomic<const char*> call_{nullptr};  // that is being made
  bool has_failed_ = false;
  const int exceptions_;  // that were in flight before
};

/// A training that continues although ranks are lost or replaced; what `on_rank_change` returns.
template <typename Wrapper>
class [[nodiscard]] ElasticRun : public ElasticRunBase {
 public:
  using Wrap = std::function<Wrapper(const std::shared_ptr<Communicator>& group)>;

  ElasticRun(const ElasticState& state, Wrap wrap, const ProcessGroupOptions& options)
      : ElasticRunBase(state, options), wrap_(std::move(wrap)) {
    begin();
  }

  /// What `wrap` returned for the ranks that there are now, until the next call of `make_step` or `finish`: keep no
  /// reference to it, and no other owner. A step's body uses the one that it is passed.
  /// @throws UsageError  after `finish`, or after a step that failed
  Wrapper& wrapper() {
    require_wrapped();
    return *wrapper_;
  }
  /// Makes one step: calls `body(wrapper)`, which forwards, goes backward and updates. If a rank is lost meanwhile, the
  /// others call `body` again with a wrapper of their new group, or take over the state of one that has made the step.
  /// So `body` does not catch errors of exchanges. Collective.
  /// @throws UsageError  within a step or `wrap`, or after a call that has failed
  /// @throws Error  what `body` and `wrap` throw, if no rank is lost. The run has failed then
  void make_step(const std::function<void(Wrapper&)>& body) {
    run_step([&] { body(*wrapper_); });
  }

 private:
  void wrap() override { wrapper_.reset(new Wrapper(wrap_(group()))); }
  void unwrap() override { wrapper_.reset(); }

  Wrap wrap_;
  std::unique_ptr<Wrapper> wrapper_;
};

/// Lets a program with a loop of its own continue when ranks are lost, and when processes take their places: `wrap` is
/// called for the first ranks, and again after each change of ranks.
///
///     auto run = lockstep::on_rank_change(state, [&](const std::shared_ptr<lockstep::Communicator>& group) {
///       lockstep::DistributedDataParallelOptions options;
///       options.process_group = group;
///       options.virtual_shards = 8;
///       return lockstep::DistributedDataParallel(model, options);
///     });
///     while (run.step() < 1000) {
///       run.make_step([&](auto& ddp) {
///         ddp.run_shards(run.step(), [&](std::int64_t shard) { ... });
///         optimizer.step();
///       });
///     }
///     run.finish();
///
/// A step changes the state only after its last exchange, and does not catch errors of exchanges. What is exchanged
/// outside of steps, such as for an evaluation, does not survive: do it at a step's start. `wrap` makes all that
/// belongs to a group, returns it, and may fuse the only optimizer, over virtual shards; an Accelerator made for the
/// group serves as well. Between steps a rank may do what it wants alone. All ranks must end their loops after the same
/// step. With virtual shards no sample is lost, and the bits are those of the undisturbed run. See
/// docs/reference/survival.md.
///
/// Joins the job, in place of init_process_group, or takes a lost rank's place if `lockstep run` started the process
/// for that. A process that has called init_process_group before keeps its group, but one that takes a lost rank's
/// place cannot call it.
/// @throws UsageError  without `lockstep run`
/// @throws Error  what `wrap` throws, if no rank is lost
template <typename Wrap>
auto on_rank_change(const ElasticState& state, Wrap wrap, const ProcessGroupOptions& options = {})
    -> ElasticRun<std::invoke_result_t<Wrap&, const std::shared_ptr<Communicator>&>> {
  return {state, std::move(wrap), options};
}

}  // namespace lockstep
