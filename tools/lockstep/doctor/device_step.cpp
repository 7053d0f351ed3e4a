// Step device: each device by itself, or the CPU if there is none.
#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/types.h>

#include "lockstep/base/error.h"
#include "tools/lockstep/doctor/doctor_job.h"
#include "tools/lockstep/doctor/part_clock.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kCalls = 5;

// Products of whole numbers, whose sums fp32 holds exactly: another result is a fault, not rounding.
void check_product(c10::Device device) {
  const at::Tensor a = at::arange(64 * 64, at::kFloat).remainder(7).view({64, 64});
  const at::Tensor b = at::arange(64 * 64, at::kFloat).remainder(5).view({64, 64});
  const at::Tensor want = a.to(at::kDouble).matmul(b.to(at::kDouble)).to(at::kFloat);
  if (a.to(device).matmul(b.to(device)).cpu().equal(want)) return;
  throw Error("a product of small whole numbers came out wrong", device.str(),
              "the device, its driver or its memory is at fault: run nvidia-smi -q -d ECC, and another device");
}

double product_gflops(c10::Device device, std::int64_t size, at::ScalarType type) {
  const at::Tensor a = at::rand({size, size}).to(device, type);
  const double seconds = best_seconds(device, kCalls, [&] { a.matmul(a); });
  const auto n = static_cast<double>(size);
  return 2 * n * n * n / seconds * 1e-9;
}

double copy_gb_s(c10::Device device, const at::Tensor& to, const at::Tensor& from) {
  const double seconds = best_seconds(device, kCalls, [&] { to.copy_(from, /*non_blocking=*/true); });
  return static_cast<double>(from.nbytes()) / seconds * 1e-9;
}

// A small operation, of which there are thousands in a step.
double operation_us(c10::Device device) {
  const at::Tensor x = at::zeros({16}, at::TensorOptions(device));
  constexpr int kOperations = 500;
  return best_seconds(device, kCalls,
                      [&] {
                        for (int i = 0; i < kOperations; ++i) x.add_(1);
                      }) /
         kOperations * 1e6;
}

Json copies_with_host(c10::Device device, const at::Tensor& there) {
  const at::Tensor pageable = at::zeros(there.sizes(), at::kFloat);
  const at::Tensor pinned = pageable.pin_memory();
  return {{"to_device_gb_s", copy_gb_s(device, there, pinned)},
          {"from_device_gb_s", copy_gb_s(device, pinned, there)},
          {"to_device_pageable_gb_s", copy_gb_s(device, there, pageable)},
          {"from_device_pageable_gb_s", copy_gb_s(device, pageable, there)}};
}

std::string device_line(const Json& figures) {
  std::string line = fmt::format("{}: {:.0f} GFLOP/s in fp32", figures["device"].get<std::string>(),
                                 figures["fp32_gflops"].get<double>());
  if (figures.contains("bf16_gflops")) line += fmt::format(", {:.0f} in bf16", figures["bf16_gflops"].get<double>());
  line += fmt::format(", copies {:.1f} GB/s", figures["copy_gb_s"].get<double>());
  if (figures.contains("to_device_gb_s"))
    line += fmt::format(", from the host {:.1f}", figures["to_device_gb_s"].get<double>());
  return line + fmt::format(", an operation {:.1f} us", figures["operation_us"].get<double>());
}

}  // namespace

Json device_part(const DoctorPlace& place) {
  const c10::Device device =
      place.device < 0 ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(place.device));
  check_product(device);
  const std::int64_t size = place.is_full ? 4096 : 256;
  Json figures{{"device", device.str()}, {"fp32_gflops", product_gflops(device, size, at::kFloat)}};
  if (!device.is_cpu()) {
    at::globalContext().setAllowTF32CuBLAS(true);
    figures["tf32_gflops"] = product_gflops(device, size, at::kFloat);
    at::globalContext().setAllowTF32CuBLAS(false);
    figures["bf16_gflops"] = product_gflops(device, size, at::kBFloat16);
  }
  const at::Tensor there = at::zeros({(place.is_full ? 256 : 32) << 18}, at::TensorOptions(device));
  figures["copy_gb_s"] = 2 * copy_gb_s(device, there.clone(), there);  // read and written
  if (!device.is_cpu()) figures.update(copies_with_host(device, there));
  figures["operation_us"] = operation_us(device);
  return figures;
}

StepFigures check_devices(const DoctorOptions& options) {
  StepFigures found;
  found.figures = Json::array();
  const int count = options.has_devices() ? static_cast<int>(options.cuda.devices.size()) : 0;
  for (int device = count == 0 ? -1 : 0; device < count; ++device) {
    found.figures.push_back(run_part("device", options, device));
    if (found.line.empty()) found.line = device_line(found.figures.back());
  }
  if (count > 1) found.line += fmt::format("; and {} more", count - 1);
  return found;
}

}  // namespace lockstep
