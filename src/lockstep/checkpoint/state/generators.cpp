#include "lockstep/checkpoint/generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

at::Tensor tensor_of_bytes(const std::string& bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string bytes_of_tensor(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.cpu().contiguous();
  return {static_cast<const char*>(plain.data_ptr()), plain.nbytes()};
}

}  // namespace

Generators::Generators(int cuda_device)
    : Generators(cuda_device < 0 ? std::vector<int>() : std::vector<int>{cuda_device}) {}

Generators::Generators(const std::vector<int>& cuda_devices) {
  add("cpu", at::detail::getDefaultCPUGenerator());
  for (const int index : cuda_devices) {
    const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
    const bool is_first = index == cuda_devices.front();
    add(is_first ? "cuda" : device.str(), at::globalContext().defaultGenerator(device), is_first);
  }
}

void Generators::add(const std::string& name, at::Generator generator) { add(name, std::move(generator), true); }
void Generators::add(const std::string& name, Save save, Load load) {
  add(name, std::move(save), std::move(load), true);
}

void Generators::add(const std::string& name, at::Generator generator, bool is_required) {
  const auto save = [generator]() mutable {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    return bytes_of_tensor(generator.get_state());
  };
  const auto load = [generator](const std::string& bytes) mutable {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(tensor_of_bytes(bytes));
  };
  add(name, save, load, is_required);
}

void Generators::add(const std::string& name, Save save, Load load, bool is_required) {
  if (entries_.emplace(name, Entry{std::move(save), std::move(load), is_required}).second) return;
  throw Error(fmt::format("a generator \"{}\" already exists", name), "Generators::add",
              "give each generator its own name");
}

NamedTensors Generators::state() const {
  NamedTensors state;
  for (const auto& [name, entry] : entries_) state.emplace_back(name, tensor_of_bytes(entry.save()));
  return state;
}

void Generators::load_state(const NamedTensors& state) {
  for (const auto& [name, entry] : entries_) {
    const at::Tensor* found = nullptr;
    for (const auto& item : state) {
      if (item.first == name) found = &item.second;
    }
    if (found == nullptr && !entry.is_required) {
      log_warning(
          "the checkpoint has no state for generator \"{}\": it was saved on fewer devices, so this generator's "
          "numbers are not those of the saved run",
          name);
      continue;
    }
    if (found == nullptr) {
      throw Error(fmt::format("the checkpoint has no state for generator \"{}\"", name), "Generators::load_state",
                  "resume on the kind of device that the run was saved on, with the same generators added");
    }
    try {
      entry.load(bytes_of_tensor(*found));
    } catch (const std::exception& error) {
      const std::string text = error.what();
      throw Error(fmt::format("generator \"{}\" refuses its saved state: {}", name, text.substr(0, text.find('\n'))),
                  "Generators::load_state", "resume with the LibTorch that the run was saved with");
    }
  }
}

}  // namespace lockstep
