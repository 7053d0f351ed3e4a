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

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/tensor/autocast.h"
#include "lockstep/train/checkpointable.h"
#include "lockstep/train/mixed_precision.h"
#include "lockstep/train/nested_tensors.h"
#include "lockstep/train/prepared_loader.h"
#include "lockstep/train/prepared_model.h"
#include "lockstep/train/prepared_optimizer.h"
#include "lockstep/train/prepared_torch_loader.h"
#include "lockstep/train/project_configuration.h"
#include "lockstep/train/state_hooks.h"
#include "lockstep/train/tracker.h"

namespace lockstep {

class AcceleratorState;
class CheckpointWriter;

/// The arguments of Accelerate's Accelerator that concern data parallelism, under their names.
struct AcceleratorOptions {
  std::string mixed_precision;                   ///< no, bf16, fp16; empty: ACCELERATE_MIXED_PRECISION, else no
  std::int64_t gradient_accumulation_steps = 0;  ///< 0: ACCELERATE_GRADIENT_ACCUMULATION_STEPS, else 1
  bool cpu = false;                    ///< stay on the CPU where there is CUDA; so does ACCELERATE_USE_CPU=true
  bool device_placement = true;        ///< `prepare` moves modules to `device()`, and prepared loaders their batches
  bool split_batches = false;          ///< a loader's batch size is that of all ranks together
  bool even_batches = true;            ///< ranks get equal numbers of batches, by repeating samples
  bool sync_with_dataloader = true;    ///< GradientAccumulationPlugin: a window of accumulation ends with its loader
  DistributedDataParallelOptions ddp;  ///< DistributedDataParallelKwargs
  GradScaler::Options grad_scaler;     ///< GradScalerKwargs: of fp16
  std::vector<std::string> log_with;   ///< trackers: tensorboard, json, all
  ProjectConfiguration project_config;
};

struct SaveStateOptions {
  /// Copy what there is and return; a thread of its own writes while the loop goes on. The next save, load_state and
  /// end_training wait for it, and throw what went wrong. Accelerate has the foreground alone.
  bool background = false;
};

/// Largest shard of Accelerator::save_model: Accelerate's "10GB".
constexpr std::uint64_t kAccelerateMaxShardBytes = 10'000'000'000;

struct LoadStateOptions {
  /// Go on with another number of ranks: data from where all ranks together were, not bit for bit the same (see
  /// resume_state).
  bool allow_world_size_change = false;
};

/// Turns a training loop for one process into one for many, by four lines:
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
/// Construct it first in main: it joins the job's group. Where there is no launcher but a configuration of
/// `lockstep config`, the process becomes `lockstep launch` for this program, so that it runs with as many processes as
/// was answered; without either, it is one process. One thread at a time. Mirrors accelerate.Accelerator 1.15; where
/// it differs, it says so.
///
/// Errors: those of the communicator, and an Error for arguments that make no sense.
class Accelerator {
 public:
  explicit Accelerator(AcceleratorOptions options = {});
  Accelerator(Accelerator&&) noexcept;
  Accelerator& operator=(Accelerator&&) noexcept;
  ~Accelerator();

  // Who this is.
  int process_index() const { return group_->rank(); }
  int local_process_index() const { return group_->membership().self().local_rank; }
  int num_processes() const { return group_->world_size(); }
  bool is_main_process() const { return process_index() == 0; }
  bool is_local_main_process() const { return local_process_index() == 0; }
  bool is_last_process() const { return process_index() == num_processes() - 1; }
  std::string mixed_precision() const { return precision_.name(); }
  std::int64_t gradient_accumulation_steps() const;
  Communicator& process_group() { return *group_; }
  c10::Device device() const { return device_; }  ///< this rank's: a CUDA device where there is one, else the CPU

  /// Each argument made ready, in a tuple: a module (holder, shared_ptr or TorchScript) becomes a PreparedModel, an
  /// optimizer a PreparedOptimizer, a DataLoader a PreparedLoader over this rank's share, a loader of torch::data a
  /// PreparedTorchLoader, a scheduler a PreparedScheduler. Modules are compared and made equal over the ranks.
  /// Optimizers, schedulers and `*loader` of torch::data are not copied and must outlive what is returned;
  /// `std::move(loader)` hands a loader over. Collective.
  template <typename... Objects>
  auto prepare(Objects&&... objects) {
    // In braces arguments are evaluated in their order: that of a checkpoint's files, and of what ranks compare.
    return std::tuple<decltype(prepare_one(std::forward<Objects>(objects)))...>{
        prepare_one(std::forward<Objects>(objects))...};
  }

  /// The gradients of `loss`, a mean over this rank's micro-batch, divided by the number of micro-batches of the
  /// update; under fp16 times the scale.
  void backward(const at::Tensor& loss);
  /// While the returned object lives, this is one micro-batch of `gradient_accumulation_steps`: optimizers and
  /// schedulers step, and gradients of `models` are averaged, at the last one of a window or of the loader.
  template <typename... Models>
  [[nodiscard]] auto accumulate(Models&... models) {
    begin_micro_batch();
    std::vector<DistributedDataParallelBase::NoSync> quiet;
    if (!sync_gradients()) (quiet.push_back(models.ddp().no_sync()), ...);
    return quiet;
  }
  /// While the returned object lives, gradients accumulate on this rank alone.
  template <typename Model>
  [[nodiscard]] auto no_sync(Model& model) {
    return model.ddp().no_sync();
  }
  /// Whether this micro-batch ends in an update.
  bool sync_gradients() const;

  /// Scales the gradients of `parameters` so that their norm together is at most `max_norm`, and returns the norm
  /// before. Where this micro-batch does not end in an update, nothing, and 0: a part of the gradients has no norm that
  /// means anything. Under fp16 the gradients are unscaled first.
  double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2);
  /// Cuts each element to [-clip_value, clip_value]; as above.
  void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);
  /// Under fp16: takes the scale off the gradients of all prepared optimizers, once for each update; else nothing.
  void unscale_gradients() { unscale_gradients_of(nullptr); }
  /// Whether a prepared optimizer left its last step out, since a gradient held an infinity or NaN (fp16).
  bool optimizer_step_was_skipped() const;
  /// Operators of this thread compute in mixed precision while it lives; nothing where that is "no".
  Autocast autocast() const;

  /// All ranks' tensors one behind the other along the first dimension, the same on every rank; scalars become a
  /// vector. The same shape on every rank, any dtype. Collective, as all that follow.
  at::Tensor gather(const at::Tensor& tensor);
  /// The same for something that belongs to the samples of the batch at hand: without those that were repeated to make
  /// batches even, and in the order of the dataset (or of the epoch, if that is shuffled).
  at::Tensor gather_for_metrics(const at::Tensor& tensor);
  /// @param reduction  sum, mean, max, min or none
  at::Tensor reduce(const at::Tensor& tensor, const std::string& reduction = "sum", double scale = 1);
  /// `tensor`, grown along `dim` with `pad_index` to the largest size that it has on any rank.
  at::Tensor pad_across_processes(const at::Tensor& tensor, std::int64_t dim = 0, double pad_index = 0,
                                  bool pad_first = false);
  /// The four above for each tensor of a map or vector of tensors, at any depth.
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
  void wait_for_everyone() { group_->barrier(); }
  /// Runs `body` on the main process first, then on the others, which wait as long as the main process lives. If it
  /// throws there, all throw, and the others name that process.
  void main_process_first(const std::function<void()>& body) { one_first(is_main_process(), body); }
  /// The same on each host.
  void local_main_process_first(const std::function<void()>& body) { one_first(is_local_main_process(), body); }
  /// True on every rank if `set_trigger` was called on any since the last check.
  void set_trigger() { trigger_ = true; }
  bool check_trigger();

  /// This rank's part of `inputs`, as even as can be, lower ranks one more. `apply_padding` repeats the last element
  /// for those that have one less. Not collective.
  template <typename T>
  std::vector<T> split_between_processes(const std::vector<T>& inputs, bool apply_padding = false) const {
    const auto [begin, end] = share_of(static_cast<std::int64_t>(inputs.size()), process_index());
    std::vector<T> part(inputs.begin() + begin, inputs.begin() + end);
    const auto [first, most] = share_of(static_cast<std::int64_t>(inputs.size()), 0);
    while (apply_padding && !inputs.empty() && static_cast<std::int64_t>(part.size()) < most - first) {
      part.push_back(inputs.back());
    }
    return part;
  }
  at::Tensor split_between_processes(const at::Tensor& input, bool apply_padding = false) const;
  /// Each value of a map cut so, all at the same places. @throws Error  if they differ in length
  template <typename Values>
  std::map<std::string, Values> split_between_processes(const std::map<std::string, Values>& inputs,
                                                        bool apply_padding = false) const {
    std::map<std::string, Values> parts;
    for (const auto& [name, values] : inputs) {
      require_same_length(inputs.begin()->first, length_of(inputs.begin()->second), name, length_of(values));
      parts.emplace(name, split_between_processes(values, apply_padding));
    }
    return parts;
  }

  /// Runs `loop`, in which ranks may make different numbers of steps of `model` (see even_batches). Afterwards all have
  /// the weights of a rank that was last, and the state of its prepared optimizers and schedulers and of its scale.
  template <typename Model>
  void join_uneven_inputs(Model& model, const std::function<void()>& loop) {
    JoinOptions options;
    options.optimizers = prepared_optimizers();
    take_over_from(model.ddp().join(loop, std::move(options)));
  }

  /// Writes what a training needs to go on: weights of prepared models, state of prepared optimizers and schedulers,
  /// positions of prepared loaders, gradients of a window that is not full, the scale, each rank's generators, what its
  /// communication hooks keep, and what was registered. Of models whose hook leaves the ranks apart, each rank's
  /// weights and optimizers. Whole or not there: see docs/reference/checkpoints.md. Call it after `step`. Collective.
  /// @param output_dir  the folder, which is replaced; empty: by automatic_checkpoint_naming
  /// @return  the folder, which is there on return unless it is written in the background
  /// @throws Error  on every rank, if it cannot be written
  std::string save_state(const std::string& output_dir = "", SaveStateOptions options = {});
  /// Takes it up, verified; the same objects must have been prepared in the same order. Loaders go on in the middle of
  /// their epoch: loop from `loader.next_epoch()`. Collective.
  /// @param input_dir  empty: the newest whole one of automatic_checkpoint_naming
  /// @throws Error  on every rank, if it is missing or damaged, or of other objects or another number of ranks
  void load_state(const std::string& input_dir = "", LoadStateOptions options = {});
  /// Calls `hook` on every rank when save_state has gathered what it will write, and before it does.
  RemovableHandle register_save_state_pre_hook(SaveStatePreHook hook) {
    return {save_hooks_, save_hooks_->add(std::move(hook))};
  }
  /// Calls `hook` on every rank when load_state has verified the checkpoint, and before it changes anything.
  RemovableHandle register_load_state_pre_hook(LoadStatePreHook hook) {
    return {load_hooks_, load_hooks_->add(std::move(hook))};
  }
  /// Writes the weights of a prepared model into `save_directory`, as Hugging Face's `from_pretrained` reads them:
  /// `model.safetensors`, or shards with an index. The main process writes, the others wait. Collective.
  /// @throws Error  on every rank, if it cannot be written
  template <typename ModuleType>
  void save_model(PreparedModel<ModuleType>& model, const std::string& save_directory,
                  std::uint64_t max_shard_bytes = kAccelerateMaxShardBytes) {
    save_weights(model.tensors(), save_directory, max_shard_bytes);
  }
  /// Lets save_state and load_state keep `object` too, by `state_dict()` and `load_state_dict(text)`, or by LibTorch's
  /// `save` and `load`. The main process's state is that of all. It must outlive this.
  template <typename Object>
  void register_for_checkpointing(Object& object) {
    keep(checkpointable(object));
  }
  /// The next pass over `loader` leaves out its first batches, at no cost.
  static PreparedLoader& skip_first_batches(PreparedLoader& loader, std::int64_t batches) {
    loader.skip_first_batches(batches);
    return loader;
  }
  /// The same for a loader of torch::data, which reads them to get past them.
  template <typename Loader>
  static PreparedTorchLoader<Loader>& skip_first_batches(PreparedTorchLoader<Loader>& loader, std::int64_t batches) {
    loader.skip_first_batches(batches);
    return loader;
  }

  /// Starts the trackers of `log_with`, in `logging_dir/project_name`. @param config  a JSON object: hyper-parameters
  /// @throws Error  if there is no logging_dir, or it cannot be written
  void init_trackers(const std::string& project_name, const nlohmann::json& config = nlohmann::json::object());
  /// The tracker of that name, such as "tensorboard"; on other processes one that does nothing.
  /// @throws Error  if init_trackers has started none of that name
  Tracker& get_tracker(const std::string& name);
  /// On the main process: hands values to all trackers. Not collective. @param step  negative: one after the last
  void log(const Logs& values, std::int64_t step = -1);

  /// Writes one line, on the first rank of each host.
  void print(const std::string& line) const;
  /// The module itself.
  template <typename ModuleType>
  static ModuleType unwrap_model(PreparedModel<ModuleType>& model) {
    return model.module();
  }
  /// Forgets all that was prepared and registered, and the window at hand, so that other objects may take its place:
  /// checkpoints hold what is prepared from here on. Waits for a checkpoint that is being written.
  void free_memory();
  /// Ends trackers, and leaves the job's group in order. The last call; prepared objects are of no more use.
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
      return PreparedTorchLoader<Loader>(std::move(loader), loader_share(), group_, batches_to_read_ahead(), loaders_);
    } else {
      static_assert(detail::require_preparable<Type>());
      place(module_tensors(detail::plain_module(object)));
      PreparedModel<Type> model(object, ddp_options(), precision_);
      keep([model]() mutable { return model.tensors(); },
           [model]() mutable -> DistributedDataParallelBase& { return model.ddp(); });
      return model;
    }
  }
  // What checkpoints hold from here on.
  void keep(std::function<ModuleTensors()> tensors, std::function<DistributedDataParallelBase&()> ddp);
  void keep(torch::optim::Optimizer& optimizer);
  void keep(torch::optim::LRScheduler& scheduler);
  void keep(Checkpointable object);
  const std::vector<torch::optim::Optimizer*>& prepared_optimizers() const;
  void take_over_from(int rank);
  void save_weights(const ModuleTensors& tensors, const std::string& folder, std::uint64_t max_shard_bytes);
  void place(const ModuleTensors& tensors) const;
  LoaderShare loader_share() const;
  std::int64_t batches_to_read_ahead() const;
  PreparedLoader prepare_loader(const DataLoader& loader);
  DistributedDataParallelOptions ddp_options() const;
  void unscale_gradients_of(const std::vector<at::Tensor>* parameters);
  void begin_micro_batch();
  void one_first(bool is_first, const std::function<void()>& body);
  std::pair<std::int64_t, std::int64_t> share_of(std::int64_t count, int rank) const;
  static std::int64_t length_of(const at::Tensor& values) { return values.size(0); }
  template <typename T>
  static std::int64_t length_of(const std::vector<T>& values) {
    return static_cast<std::int64_t>(values.size());
  }
  static void require_same_length(const std::string& first, std::int64_t length, const std::string& other,
                                  std::int64_t other_length);

  AcceleratorOptions options_;
  std::shared_ptr<Communicator> group_;
  bool owns_group_ = false;
  c10::Device device_{c10::kCPU};
  MixedPrecision precision_;
  std::shared_ptr<UpdateState> state_;
  std::shared_ptr<AcceleratorState> kept_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::string writer_key_;  // what it was made for
  std::shared_ptr<HookList<SaveStatePreHook>> save_hooks_ = std::make_shared<HookList<SaveStatePreHook>>();
  std::shared_ptr<HookList<LoadStatePreHook>> load_hooks_ = std::make_shared<HookList<LoadStatePreHook>>();
  std::vector<std::unique_ptr<Tracker>> trackers_;  // of the main process
  std::int64_t next_log_step_ = 0;
  std::shared_ptr<ActiveLoaders> loaders_ = std::make_shared<ActiveLoaders>();
  bool trigger_ = false;
};

/// Seeds LibTorch's generators. @param device_specific  a seed of its own for each rank
void set_seed(std::uint64_t seed, bool device_specific = false);

}  // namespace lockstep
