#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/detail/train/accelerator_options.h"
#include "lockstep/detail/train/checkpointable.h"
#include "lockstep/detail/train/mixed_precision.h"
#include "lockstep/detail/train/nested_tensors.h"
#include "lockstep/detail/train/partial_state.h"
#include "lockstep/detail/train/prepared_loader.h"
#include "lockstep/detail/train/prepared_model.h"
#include "lockstep/detail/train/prepared_optimizer.h"
#include "lockstep/detail/train/prepared_torch_loader.h"
#include "lockstep/detail/train/state_hooks.h"
#include "lockstep/detail/train/tracker.h"

namespace lockstep {

class AcceleratorState;
class CheckpointWriter;

/// Turns a training loop for one process into a loop for many processes, by four lines:
///
///     lockstep::Accelerator accelerator;
///     auto [model, optimizer, loader] = accelerator.prepare(net, sgd, train_loader);
///     for (auto& batch : loader) {
///       optimizer.zero_grad();
///       auto loss = criterion(model(batch["images"]), batch["labels"]);
///       accelerator.backward(loss);                                         // in place of loss.backward()
///       optimizer.step();
///     }
///
/// Construct it first in main: it joins the job's group. If no launcher started the process but `lockstep config` wrote
/// a configuration, the process becomes `lockstep launch` for this program, with as many processes as the configuration
/// says. Without launcher and configuration it is a single process. One thread at a time. Its base has this process's
/// place in the job. Mirrors accelerate.Accelerator 1.15; comments name the differences.
///
/// Errors: those of the communicator, and an Error for invalid arguments.
class Accelerator : public PartialState {
 public:
  explicit Accelerator(AcceleratorOptions options = {});
  Accelerator(Accelerator&&) noexcept;
  Accelerator& operator=(Accelerator&&) noexcept;
  ~Accelerator();

  std::string mixed_precision() const { return precision_.name(); }
  std::int64_t gradient_accumulation_steps() const;

  /// Prepares each argument and returns all in a tuple. A module (holder, shared_ptr or TorchScript) becomes a
  /// PreparedModel, an optimizer a PreparedOptimizer, a DataLoader a PreparedLoader over this rank's share, a loader of
  /// torch::data a PreparedTorchLoader, a scheduler a PreparedScheduler. Modules, and what loaders read, are compared
  /// over the ranks, and modules made equal. With AcceleratorOptions::fsdp_plugin modules are shared out with the
  /// optimizers of their parameters, as soon as both were prepared. Optimizers, schedulers and `*loader` of torch::data
  /// are not copied and must outlive the result; `std::move(loader)` hands a loader over. Collective.
  template <typename... Objects>
  auto prepare(Objects&&... objects) {
    // In braces, arguments are evaluated in order. A checkpoint's files and the comparison of ranks rely on this order.
    std::tuple<decltype(prepare_one(std::forward<Objects>(objects)))...> prepared{
        prepare_one(std::forward<Objects>(objects))...};
    share_out();
    return prepared;
  }

  /// Computes the gradients of `loss`, a mean over this rank's micro-batch, divided by the number of micro-batches of
  /// the update. Under fp16 they are multiplied by the scale.
  void backward(const at::Tensor& loss);
  /// While the returned object lives, this is one micro-batch of `gradient_accumulation_steps`. Optimizers and
  /// schedulers step, and the gradients of `models` are averaged, only in the last micro-batch of a window or of the
  /// loader.
  template <typename... Models>
  [[nodiscard]] auto accumulate(Models&... models) {
    begin_micro_batch();
    std::vector<DistributedDataParallelBase::NoSync> quiet;
    if (!sync_gradients()) (quiet.push_back(models.ddp().no_sync()), ...);
    return quiet;
  }
  /// While the returned object lives, gradients accumulate on this rank only.
  template <typename Model>
  [[nodiscard]] auto no_sync(Model& model) {
    return model.ddp().no_sync();
  }
  /// Whether an update follows this micro-batch.
  bool sync_gradients() const;
  /// With AcceleratorOptions::ddp.virtual_shards, makes the gradients of one update: calls `body(shard)` for each of
  /// this rank's shards, as DistributedDataParallel::run_shards. The body runs `model` and `backward` on the shard's
  /// samples, which are a function of update and shard alone; `optimizer.step()` follows. Collective.
  /// @param update  identifies the update, for random numbers: a seed and a step, mixed
  /// @throws Error  without virtual shards, or with gradient_accumulation_steps above 1
  template <typename Model>
  void run_shards(Model& model, std::uint64_t update, const std::function<void(std::int64_t shard)>& body) {
    check_slices_alone();
    model.ddp().run_shards(update, body);
  }

  /// Scales the gradients of `parameters` so that their norm together is at most `max_norm`, and returns the norm
  /// before scaling. If no update follows this micro-batch, it does nothing and returns 0, because the norm of
  /// incomplete gradients means nothing. Under fp16 the gradients are unscaled first.
  double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2);
  /// Clamps each element to [-clip_value, clip_value]; does nothing if no update follows this micro-batch.
  void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);
  /// Under fp16, divides the gradients of all prepared optimizers by the scale, once for each update; else does
  /// nothing.
  void unscale_gradients() { unscale_gradients_of(nullptr); }
  /// Whether a prepared optimizer skipped its last step, because a gradient held an infinity or NaN (fp16).
  bool optimizer_step_was_skipped() const;
  /// While the result lives, operators of this thread compute in mixed precision; if that is "no", nothing changes.
  Autocast autocast() const;

  /// Concatenates all ranks' tensors along the first dimension, with the same result on every rank; scalars become a
  /// vector. Tensors have the same shape on every rank, and any dtype. Collective, like all functions below.
  at::Tensor gather(const at::Tensor& tensor);
  /// Gathers tensors that belong to the samples of the current batch, which is the one that a prepared loader returned
  /// last. The result omits the samples that were repeated to make batches even, and has the order of the dataset (of
  /// the epoch, if that is shuffled). After a loop nothing is omitted; if samples were repeated, a warning says so.
  /// @throws Error  on every rank, if one's tensor has another number of elements along dimension 0 than its batch has
  /// samples; an empty one contributes nothing
  at::Tensor gather_for_metrics(const at::Tensor& tensor);
  /// @param reduction  sum, mean, max, min or none
  at::Tensor reduce(const at::Tensor& tensor, const std::string& reduction = "sum", double scale = 1);
  /// `tensor`, padded along `dim` with `pad_index` to the largest size on any rank.
  at::Tensor pad_across_processes(const at::Tensor& tensor, std::int64_t dim = 0, double pad_index = 0,
                                  bool pad_first = false);
  /// The four functions above for each tensor of a map or vector of tensors, at any depth.
  template <typename Nested, std::enable_if_t<kIsNested<Nested>, int> = 0>
  Nested gather(const Nested& nested) {
    return NestedTensors::apply(nested, [&](const at::Tensor& each) { return gather(each); });
  }
  template <typename Nested, std::enable_if_t<kIsNested<Nested>, int> = 0>
  Nested gather_for_metrics(const Nested& nested) {
    return NestedTensors::apply(nested, [&](const at::Tensor& each) { return gather_for_metrics(each); });
  }
  template <typename Nested, std::enable_if_t<kIsNested<Nested>, int> = 0>
  Nested reduce(const Nested& nested, const std::string& reduction = "sum", double scale = 1) {
    return NestedTensors::apply(nested, [&](const at::Tensor& each) { return reduce(each, reduction, scale); });
  }
  template <typename Nested, std::enable_if_t<kIsNested<Nested>, int> = 0>
  Nested pad_across_processes(const Nested& nested, std::int64_t dim = 0, double pad_index = 0,
                              bool pad_first = false) {
    return NestedTensors::apply(
        nested, [&](const at::Tensor& each) { return pad_across_processes(each, dim, pad_index, pad_first); });
  }
  /// `check_trigger` is true on every rank if any rank called `set_trigger` since the last check.
  void set_trigger() { trigger_ = true; }
  bool check_trigger();

  /// Runs `loop`, in which ranks may make different numbers of steps of `model` (see even_batches). Afterwards all
  /// ranks have the weights of a rank that finished last, and the state of its prepared optimizers, schedulers and
  /// scale.
  template <typename Model>
  void join_uneven_inputs(Model& model, const std::function<void()>& loop) {
    JoinOptions options;
    options.optimizers = prepared_optimizers();
    take_over_from(model.ddp().join(loop, std::move(options)));
  }

  /// Writes everything that a training needs to continue: the weights of prepared models, the state of prepared
  /// optimizers and schedulers, the positions of prepared loaders, the gradients of an incomplete window, the scale,
  /// each rank's generators, the state of its communication hooks, and registered objects. If a hook lets the ranks'
  /// models differ, each rank's weights and optimizers are written. The checkpoint is either complete or absent: see
  /// docs/reference/checkpoints.md. Call it after `step`. Collective.
  /// @param output_dir  the folder, which is replaced; empty: by automatic_checkpoint_naming
  /// @return  the folder; it exists on return, unless it is written in the background
  /// @throws Error  on every rank, if it cannot be written
  std::string save_state(const std::string& output_dir = "", SaveStateOptions options = {});
  /// Restores a checkpoint after verifying it. The same objects must have been prepared in the same order. Loaders
  /// continue in the middle of their epoch: loop from `loader.next_epoch()`. Collective.
  /// @param input_dir  empty: the newest whole checkpoint of automatic_checkpoint_naming
  /// @throws Error  on every rank, if the checkpoint is missing or damaged, or was written with other objects or
  /// another number of ranks
  void load_state(const std::string& input_dir = "", LoadStateOptions options = {});
  /// Calls `hook` on every rank after save_state has collected the state and before it writes.
  RemovableHandle register_save_state_pre_hook(SaveStatePreHook hook) {
    return {save_hooks_, save_hooks_->add(std::move(hook))};
  }
  /// Calls `hook` on every rank after load_state has verified the checkpoint and before it changes anything.
  RemovableHandle register_load_state_pre_hook(LoadStatePreHook hook) {
    return {load_hooks_, load_hooks_->add(std::move(hook))};
  }
  /// Writes the weights of a prepared model into `save_directory`, as Hugging Face's `from_pretrained` reads them:
  /// `model.safetensors`, or shards with an index. The main process writes while the others wait. Collective.
  /// @throws Error  on every rank, if it cannot be written
  template <typename ModuleType>
  void save_model(PreparedModel<ModuleType>& model, const std::string& save_directory,
                  std::uint64_t max_shard_bytes = kAccelerateMaxShardBytes) {
    save_weights(model.tensors(), model.ddp(), save_directory, max_shard_bytes);
  }
  /// Adds `object` to the state that save_state and load_state keep, by `state_dict()` and `load_state_dict(text)`, or
  /// by LibTorch's `save` and `load`. The main process's state is used for all. `object` must outlive this Accelerator.
  template <typename Object>
  void register_for_checkpointing(Object& object) {
    keep(checkpointable(object));
  }
  /// The next pass over `loader` skips its first batches without reading them.
  static PreparedLoader& skip_first_batches(PreparedLoader& loader, std::int64_t batches) {
    loader.skip_first_batches(batches);
    return loader;
  }
  /// Skips batches of a loader of torch::data, which must read them to skip them.
  template <typename Loader>
  static PreparedTorchLoader<Loader>& skip_first_batches(PreparedTorchLoader<Loader>& loader, std::int64_t batches) {
    loader.skip_first_batches(batches);
    return loader;
  }

  /// Starts the trackers of `log_with`, in `logging_dir/project_name`. @param config  a JSON object: hyper-parameters
  /// @throws Error  if no logging_dir is given, or it cannot be written
  void init_trackers(const std::string& project_name, const nlohmann::json& config = nlohmann::json::object());
  /// The tracker called `name`, such as "tensorboard"; on other processes a tracker that does nothing.
  /// @throws Error  if init_trackers did not start a tracker of that name
  Tracker& get_tracker(const std::string& name);
  /// On the main process, passes values to all trackers. Not collective. @param step  negative: one after the last
  void log(const Logs& values, std::int64_t step = -1);

  /// The module itself.
  template <typename ModuleType>
  static ModuleType unwrap_model(PreparedModel<ModuleType>& model) {
    return model.module();
  }
  /// Forgets all prepared and registered objects and the current window, so that other objects can be prepared: later
  /// checkpoints contain only these. Waits for a checkpoint that is being written.
  void free_memory();
  /// Ends trackers, and leaves the job's group in order. This is the last call; prepared objects must not be used
  /// afterwards.
  void end_training();

 private:
  template <typename Object>
  auto prepare_one(Object&& object) {
    using Type = std::decay_t<Object>;
    if constexpr (std::is_same_v<Type, DataLoader>) {
      return prepare_loader(object);
    } else if constexpr (std::is_base_of_v<torch::optim::Optimizer, Type>) {
      keep(object);
      return PreparedOptimizer(object, state_);
    } else if constexpr (std::is_base_of_v<torch::optim::LRScheduler, Type>) {
      keep(object);
      return PreparedScheduler(object, state_);
    } else if constexpr (kIsTorchLoader<Type>) {
      auto loader = torch_loader_of(std::forward<Object>(object));
      using Loader = typename decltype(loader)::element_type;
      return PreparedTorchLoader<Loader>(std::move(loader), loader_share(), group(), batches_to_read_ahead(), loaders_);
    } else {
      static_assert(detail::require_preparable<Type>());
      place(module_tensors(detail::plain_module(object)));
      PreparedModel<Type> model(object, ddp_options(), precision_);
      keep([model]() mutable { return model.tensors(); },
           [model]() mutable -> DistributedDataParallelBase& { return model.ddp(); });
      return model;
    }
  }
  // Adds to the contents of later checkpoints.
  void keep(std::function<ModuleTensors()> tensors, std::function<DistributedDataParallelBase&()> ddp);
  void keep(torch::optim::Optimizer& optimizer);
  void keep(torch::optim::LRScheduler& scheduler);
  void keep(Checkpointable object);
  const std::vector<torch::optim::Optimizer*>& prepared_optimizers() const;
  void share_out();
  void take_over_from(int rank);
  void save_weights(const ModuleTensors& tensors, DistributedDataParallelBase& model, const std::string& folder,
                    std::uint64_t max_shard_bytes);
  void place(const ModuleTensors& tensors) const;
  LoaderShare loader_share() const;
  std::int64_t batches_to_read_ahead() const;
  PreparedLoader prepare_loader(const DataLoader& loader);
  DistributedDataParallelOptions ddp_options() const;
  void unscale_gradients_of(const std::vector<at::Tensor>* parameters);
  void begin_micro_batch();
  void check_slices_alone() const;
  AcceleratorOptions options_;
  bool owns_group_ = false;
  MixedPrecision precision_;
  std::shared_ptr<UpdateState> state_;
  std::shared_ptr<AcceleratorState> kept_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::string writer_key_;  // the settings that the writer was made for
  std::shared_ptr<HookList<SaveStatePreHook>> save_hooks_ = std::make_shared<HookList<SaveStatePreHook>>();
  std::shared_ptr<HookList<LoadStatePreHook>> load_hooks_ = std::make_shared<HookList<LoadStatePreHook>>();
  std::vector<std::unique_ptr<Tracker>> trackers_;  // on the main process
  std::int64_t next_log_step_ = 0;
  std::shared_ptr<ActiveLoaders> loaders_ = std::make_shared<ActiveLoaders>();
  bool trigger_ = false;
};

/// Seeds LibTorch's generators. @param device_specific  give each rank another seed
void set_seed(std::uint64_t seed, bool device_specific = false);

}  // namespace lockstep
