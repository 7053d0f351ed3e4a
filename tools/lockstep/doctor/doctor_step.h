// The steps of `lockstep doctor`, and the parts of them that run in processes of their own.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lockstep/devices/cuda_facts.h"

namespace lockstep {

/// What all steps go by.
struct DoctorOptions {
  int ranks = 0;         ///< of steps with several; 0: one for each CUDA device, or 2 on a host without devices
  bool is_full = false;  ///< sizes that keep a GPU busy; else sizes for a look of some seconds
  std::string python;    ///< interpreter whose PyTorch is compared; empty: none
  CudaFacts cuda;

  bool has_devices() const { return cuda.has_torch_cuda && !cuda.devices.empty(); }
  int ranks_of_jobs() const;
};

/// What a step found: figures for the file, and one line for the reader.
struct StepFigures {
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  std::string line;
};

/// One step. `run` throws an Error that says what is wrong and what to do.
struct DoctorStep {
  const char* name;
  const char* summary;
  std::string (*why_not)(const DoctorOptions& options);  ///< why it does not apply here; empty: it does
  StepFigures (*run)(const DoctorOptions& options);
};

/// In the order in which they run: each needs what the ones before it have shown.
const std::vector<DoctorStep>& doctor_steps();

StepFigures check_host(const DoctorOptions& options);
StepFigures check_devices(const DoctorOptions& options);
StepFigures check_pairs(const DoctorOptions& options);
StepFigures check_group(const DoctorOptions& options);
StepFigures check_loss(const DoctorOptions& options);
StepFigures check_contexts(const DoctorOptions& options);
StepFigures check_equality(const DoctorOptions& options);
StepFigures check_training(const DoctorOptions& options);
StepFigures check_trainer(const DoctorOptions& options);

/// What a process of a step is told.
struct DoctorPlace {
  bool is_full = false;
  int device = -1;      ///< -1: the CPU
  std::string meeting;  ///< file by which ranks without a launcher find each other
};

/// What a process of a step does: it computes, and returns figures. It throws an Error as a step does.
struct DoctorPart {
  const char* name;
  nlohmann::ordered_json (*run)(const DoctorPlace& place);
};
const std::vector<DoctorPart>& doctor_parts();

nlohmann::ordered_json device_part(const DoctorPlace& place);
nlohmann::ordered_json pairs_part(const DoctorPlace& place);     ///< all devices, in one process
nlohmann::ordered_json replicas_part(const DoctorPlace& place);  ///< two devices, or two shares of the cores
nlohmann::ordered_json group_part(const DoctorPlace& place);     ///< one rank of a job; so are the ones below
nlohmann::ordered_json loss_part(const DoctorPlace& place);
nlohmann::ordered_json contexts_part(const DoctorPlace& place);
nlohmann::ordered_json equality_part(const DoctorPlace& place);

}  // namespace lockstep
