#include "lockstep/parallel/wrapped_module.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <unordered_map>

#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/rank_difference.h"
#include "lockstep/parallel/end_group.h"

namespace lockstep {
namespace {

constexpr const char* kSameOrder =
    "run forward and backward of several wrapped modules in the same order on every rank, or wrap each with a group of "
    "its own (split of the group)";

struct GroupCount {
  std::weak_ptr<Communicator> group;
  int modules = 0;
};

struct AllWrapped {
  std::mutex mutex;
  std::map<const Communicator*, GroupCount> groups;
  std::unordered_map<const c10::TensorImpl*, int> parameters;  // and how many modules have each
};

// Never destroyed: a static wrapper may end after everything else.
AllWrapped& all_wrapped() {
  static auto& all = *new AllWrapped;
  return all;
}

int next_number(AllWrapped& all, const std::shared_ptr<Communicator>& group) {
  for (auto entry = all.groups.begin(); entry != all.groups.end();) {
    entry = entry->second.group.expired() ? all.groups.erase(entry) : std::next(entry);
  }
  GroupCount& count = all.groups[group.get()];
  count.group = group;
  return ++count.modules;
}

}  // namespace

WrappedModule::WrappedModule(const std::shared_ptr<Communicator>& group,
                             std::vector<std::pair<std::string, at::Tensor>> parameters)
    : parameters_(std::move(parameters)) {
  AllWrapped& all = all_wrapped();
  const std::lock_guard<std::mutex> lock(all.mutex);
  number_ = next_number(all, group);
  for (const auto& [name, parameter] : parameters_) ++all.parameters[parameter.unsafeGetTensorImpl()];
}

WrappedModule::~WrappedModule() {
  AllWrapped& all = all_wrapped();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& [name, parameter] : parameters_) {
    const auto found = all.parameters.find(parameter.unsafeGetTensorImpl());
    if (--found->second == 0) all.parameters.erase(found);
  }
}

bool WrappedModule::has(const at::Tensor& parameter) {
  AllWrapped& all = all_wrapped();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.parameters.count(parameter.unsafeGetTensorImpl()) != 0;
}

std::string text_of_module(int number) {
  return fmt::format("module {} (as the group's modules were wrapped)", number);
}

void broadcast_buffers(Communicator& communicator, std::vector<at::Tensor> buffers, int root, int module) {
  at::Tensor sent;
  if (communicator.device().is_cpu()) {
    sent = at::full({1}, module, at::TensorOptions().dtype(at::kInt));
    buffers.push_back(sent);
  }
  broadcast_coalesced(communicator, buffers, root);
  if (!sent.defined()) return;
  const int theirs = sent.item<int>();
  if (theirs == module) return;
  end_group(communicator,
            fmt::format("rank {} sends the buffers of {}, and rank {} runs a forward of {}", root,
                        text_of_module(theirs), communicator.rank(), text_of_module(module)),
            kSameOrder);
}

void throw_different_modules(Communicator& communicator, int module) {
  const auto difference = first_difference(communicator, {"a backward of " + text_of_module(module)});
  throw AgreedError(
      fmt::format("the ranks run backwards of different modules: {}. Gradients of one would be averaged with those of "
                  "another one of the same shape",
                  difference ? difference->text() : text_of_module(module) + " here"),
      communicator.membership().where() + ", DistributedDataParallel", kSameOrder);
}

}  // namespace lockstep
