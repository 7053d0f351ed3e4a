// Step pairs: copies between each two devices. A broken path between them brings wrong bytes without an error.
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "tools/lockstep/doctor/doctor_job.h"
#include "tools/lockstep/doctor/part_clock.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

c10::Device device_with(int number) { return {c10::kCUDA, static_cast<c10::DeviceIndex>(number)}; }

double checked_copy_gb_s(int from, int to, const at::Tensor& bytes) {
  const at::Tensor source = bytes.to(device_with(from));
  const at::Tensor target = at::zeros(bytes.sizes(), bytes.options().device(device_with(to)));
  const double seconds = best_seconds(device_with(to), 3, [&] {
    target.copy_(source);
    wait_for_device(device_with(from));
  });
  if (!target.cpu().equal(bytes)) {
    throw Error(fmt::format("a copy from device {} to device {} delivered wrong bytes", from, to), "this host",
                "IOMMU or ACS stands between the devices: switch them off in the firmware, or set NCCL_P2P_DISABLE=1 "
                "for jobs of Lockstep");
  }
  return static_cast<double>(bytes.nbytes()) / seconds * 1e-9;
}

}  // namespace

Json pairs_part(const DoctorPlace& place) {
  const at::Tensor bytes = at::randint(0, 256, {(place.is_full ? 256 : 1) << 20}, at::kByte);
  const auto count = static_cast<int>(torch::cuda::device_count());
  Json figures{{"bytes", bytes.nbytes()}, {"pairs", Json::array()}};
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      figures["pairs"].push_back({{"from", from}, {"to", to}, {"gb_s", checked_copy_gb_s(from, to, bytes)}});
    }
  }
  return figures;
}

StepFigures check_pairs(const DoctorOptions& options) {
  StepFigures found;
  found.figures = run_part("pairs", options);
  const auto& pairs = found.figures["pairs"];
  const auto slower = [](const Json& a, const Json& b) { return a["gb_s"].get<double>() < b["gb_s"].get<double>(); };
  const auto [least, most] = std::minmax_element(pairs.begin(), pairs.end(), slower);
  found.line = fmt::format("{} pairs, every byte right, {:.1f} to {:.1f} GB/s", pairs.size(),
                           (*least)["gb_s"].get<double>(), (*most)["gb_s"].get<double>());
  return found;
}

}  // namespace lockstep
