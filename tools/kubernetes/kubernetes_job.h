#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The properties of a Job of Kubernetes; empty and 0 mean the cluster's default.
struct KubernetesOptions {
  std::string name;         ///< of the Job, its Service and its Secret; default: the program's name
  std::string name_space;   ///< default: kubectl's
  std::string image;        ///< has the program, and `lockstep` on its PATH
  std::string nodes = "1";  ///< pods, each a node of the job; MIN:MAX: they may be lost and come back
  int nproc_per_node = 0;   ///< ranks of a pod; 0: one, or one for each GPU
  std::string cpus;         ///< of a pod: "4", "500m"
  std::string memory;       ///< of a pod: "8Gi"
  int gpus_per_node = 0;
  std::vector<std::string> volumes;  ///< CLAIM:PATH: a PersistentVolumeClaim and the folder where pods see it
  int port = 29500;                  ///< of the first pod's store
  int grace_seconds = 60;            ///< between SIGTERM, on which a Trainer saves, and SIGKILL
  std::string secret;                ///< name of a Secret that exists, with the key "secret"; empty: one is written
  std::vector<std::string> command;  ///< the program and its arguments
};

/// Manifests, as YAML for `kubectl apply -f`: a Secret unless there is one, a headless Service that gives the pods
/// names, and an Indexed Job, in which pod N is node N. The pods get the variables that Kubeflow's Trainer sets
/// (PET_NNODES and so on), which `lockstep run` and torchrun read. `lockstep run` starts
/// the program, unless that is a launcher itself.
/// @param random_secret  what the written Secret contains
/// @throws UsageError  naming the flag, if one is invalid
std::string kubernetes_job(const KubernetesOptions& options, const std::string& random_secret);

}  // namespace lockstep
