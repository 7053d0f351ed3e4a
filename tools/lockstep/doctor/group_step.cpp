// Step group: collectives of each engine that can connect these ranks, with their values checked.
#include <fmt/format.h>
#include <torch/types.h>

#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/local_device.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/net/subgroup.h"
#include "tools/lockstep/doctor/doctor_job.h"
#include "tools/lockstep/doctor/part_clock.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse_values(const std::string& what, Communicator& group, c10::Device device) {
  throw Error(
      what + " returned wrong values",
      fmt::format("{}, engine {}, {}", group.membership().where(), group.carrier(device).engine(), device.str()),
      device.is_cpu() ? "the memory or the network of this host is at fault: report it"
                      : "set NCCL_P2P_DISABLE=1 and try again: then IOMMU or ACS stands between the devices");
}

at::Tensor filled(std::int64_t elements, double value, at::ScalarType type, c10::Device device) {
  return at::full({elements}, value, at::TensorOptions(type).device(device));
}

// The values are small whole numbers, which every type holds.
void check_all_reduce(Communicator& group, at::Tensor& values) {
  const int ranks = group.world_size();
  values.fill_(group.rank() + 1);
  group.all_reduce(values);
  if (!values.eq(ranks * (ranks + 1) / 2).all().item<bool>()) refuse_values("all_reduce", group, values.device());
}

Json all_reduce_figures(Communicator& group, std::int64_t bytes, at::ScalarType type, c10::Device device) {
  at::Tensor values = filled(bytes / static_cast<std::int64_t>(c10::elementSize(type)), 1, type, device);
  check_all_reduce(group, values);
  values.zero_();
  const double seconds = best_seconds(device, 10, [&] { group.all_reduce(values); });
  const double ranks = group.world_size();
  return {{"bytes", bytes},
          {"us", seconds * 1e6},
          {"bus_gb_s", 2 * (ranks - 1) / ranks * static_cast<double>(bytes) / seconds * 1e-9}};
}

void check_shares(Communicator& group, c10::Device device) {
  const int ranks = group.world_size();
  const at::Tensor share = filled(1000, 0, at::kFloat, device);
  group.reduce_scatter(share, filled(1000L * ranks, group.rank() + 1, at::kFloat, device));
  if (!share.eq(ranks * (ranks + 1) / 2).all().item<bool>()) refuse_values("reduce_scatter", group, device);
  const at::Tensor all = filled(1000L * ranks, 0, at::kFloat, device);
  group.all_gather(all, filled(1000, group.rank(), at::kFloat, device));
  const at::Tensor want = at::arange(ranks, at::kFloat).repeat_interleave(1000);
  if (!all.cpu().equal(want)) refuse_values("all_gather", group, device);
}

// Two messages of different tags, in the order that engines of the CPU ask for.
void check_messages_in_order(Communicator& group) {
  const at::Tensor first = at::full({50000}, 3.0, at::kFloat);
  const at::Tensor second = at::full({3}, 4.0, at::kFloat);
  if (group.rank() == 0) {
    group.send(first, 1);
    group.send(second, 1, 7);
  } else if (group.rank() == 1) {
    group.recv(first.zero_(), 0);
    group.recv(second.zero_(), 0, 7);
  }
  if (!first.eq(3).all().item<bool>() || !second.eq(4).all().item<bool>()) {
    refuse_values("a message", group, c10::Device(c10::kCPU));
  }
}

// Two messages on their way at once, received in the other order, as NCCL's may be.
void check_messages(Communicator& group, c10::Device device) {
  if (device.is_cpu()) return check_messages_in_order(group);
  const int next = (group.rank() + 1) % group.world_size();
  const int before = (group.rank() + group.world_size() - 1) % group.world_size();
  const at::Tensor first = filled(50000, 0, at::kFloat, device);
  const at::Tensor second = filled(3, 0, at::kFloat, device);
  const auto receives = group.irecv(second, before, 7);
  const auto sends = group.isend(filled(50000, group.rank(), at::kFloat, device), next);
  const auto sends_too = group.isend(filled(3, 10 + group.rank(), at::kFloat, device), next, 7);
  group.recv(first, before);
  for (const auto& work : {receives, sends, sends_too}) work->wait();
  if (!first.eq(before).all().item<bool>() || !second.eq(10 + before).all().item<bool>()) {
    refuse_values("a message", group, device);
  }
}

Json figures_of_group(Communicator& group, c10::Device device, bool is_full) {
  Json figures{{"engine", group.carrier(device).engine()}, {"device", c10::DeviceTypeName(device.type(), true)}};
  std::vector<std::int64_t> sizes{8, 64 << 10, 1 << 20};
  if (is_full) sizes.insert(sizes.end(), {16 << 20, 256 << 20});
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Json& of_type = figures["all_reduce"][type == at::kFloat ? "fp32" : "bf16"];
    for (const std::int64_t bytes : sizes) of_type.push_back(all_reduce_figures(group, bytes, type, device));
  }
  check_shares(group, device);
  if (group.world_size() > 1) check_messages(group, device);
  return figures;
}

// Engines that these ranks can have beside the default one. MPI's own launcher starts its ranks.
std::vector<std::string> further_engines(const Communicator& group) {
  std::vector<std::string> names;
  for (const Engine& engine : available_engines()) {
    const std::string name = engine.name;
    const bool fits = engine.fits == nullptr || engine.fits(group.membership());
    if (engine.across_processes && engine.device == c10::DeviceType::CPU && fits && name != "mpi")
      names.push_back(name);
  }
  return names;
}

}  // namespace

Json group_part(const DoctorPlace& place) {
  init_process_group();
  const c10::Device device = use_local_device();
  const std::shared_ptr<Communicator> group = default_group();
  Json figures{{"ranks", group->world_size()}, {"engines", Json::array()}};
  if (!device.is_cpu()) figures["engines"].push_back(figures_of_group(*group, device, place.is_full));
  std::vector<int> all(static_cast<std::size_t>(group->world_size()));
  std::iota(all.begin(), all.end(), 0);
  for (const std::string& name : further_engines(*group)) {
    const auto connected = make_communicator(name, subgroup(group->membership(), all, "doctor " + name));
    figures["engines"].push_back(figures_of_group(*connected, c10::Device(c10::kCPU), /*is_full=*/false));
  }
  return figures;
}

StepFigures check_group(const DoctorOptions& options) {
  StepFigures found;
  found.figures = run_part_on_ranks("group", options.ranks_of_jobs(), options);
  found.line = fmt::format("{} ranks, all_reduce:", options.ranks_of_jobs());
  for (const auto& engine : found.figures["engines"]) {
    const auto& sizes = engine["all_reduce"]["fp32"];
    found.line += fmt::format("{} {} {:.0f} us, {:.2f} GB/s", found.line.back() == ':' ? "" : ";",
                              engine["engine"].get<std::string>(), sizes.front()["us"].get<double>(),
                              sizes.back()["bus_gb_s"].get<double>());
  }
  return found;
}

}  // namespace lockstep
