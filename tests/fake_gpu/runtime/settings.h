#pragma once

#include <string>

namespace fake_gpu {

/// What the environment asks of the fake devices; read once, at the first call.
struct Settings {
  int devices = 2;            ///< FAKE_GPU_DEVICES: how many there are, before CUDA_VISIBLE_DEVICES hides some
  unsigned seed = 1;          ///< FAKE_GPU_SEED: of the pauses
  int pause_us = 0;           ///< FAKE_GPU_PAUSE_US: the longest pause of a stream before it begins its next work
  bool peer_access = true;    ///< FAKE_GPU_PEER_ACCESS=0: no device reads another one's memory
  long memory_mb = 4096;      ///< FAKE_GPU_MEMORY_MB: of each device
  long out_of_memory_at = 0;  ///< FAKE_GPU_OUT_OF_MEMORY_AT: the first allocation that fails, from 1
  int log = 0;          ///< FAKE_GPU_LOG: 1 prints each context that is made, 2 also operators that make the host wait
  bool report = false;  ///< FAKE_GPU_REPORT: the counters are printed when the process ends
};

const Settings& settings();

/// An integer of the environment, or `otherwise`.
long number_of(const char* variable, long otherwise);

/// How many devices this process sees.
int visible_devices();
/// The number in the machine of a device that this process sees.
int physical_device(int device);

}  // namespace fake_gpu
