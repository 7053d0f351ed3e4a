// Tests `lockstep kubernetes`: what its manifests say. tests/tools/check_kubernetes.py starts ranks by them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

std::string kubernetes_manifests(CommandWords flags, const CommandWords& program) {
  flags.insert(flags.begin(), {"kubernetes", "--image", "train:1"});
  flags.push_back("--");
  flags.insert(flags.end(), program.begin(), program.end());
  return run_well(flags);
}

TEST(KubernetesCommand, MakesEachPodANode) {
  const std::string text =
      kubernetes_manifests({"--nodes", "3", "--nproc-per-node", "4"}, {"./ddp_mnist", "it's", "a \"b\""});
  for (const char* part :
       {"kind: Secret\n", "kind: Service\n", "clusterIP: None\n", "kind: Job\n", "name: \"ddp-mnist\"\n",
        "completionMode: Indexed\n  completions: 3\n  parallelism: 3\n  backoffLimit: 0\n",
        "subdomain: \"ddp-mnist\"\n", R"(command: ["lockstep","run","./ddp_mnist","it's","a \"b\""])",
        "PET_NNODES\n              value: \"3\"\n", "PET_NPROC_PER_NODE\n              value: \"4\"\n",
        "PET_MASTER_ADDR\n              value: \"ddp-mnist-0.ddp-mnist\"\n",
        "PET_MASTER_PORT\n              value: \"29500\"\n", "['batch.kubernetes.io/job-completion-index']"}) {
    EXPECT_TRUE(says(text, part)) << part << "\nin\n" << text;
  }
  EXPECT_FALSE(says(text, "limits:")) << text;
}

TEST(KubernetesCommand, ReplacesLostPodsOfAJobWhoseNodesMayChange) {
  const std::string text =
      kubernetes_manifests({"--nodes", "2:4", "--name", "reviews"}, {"lockstep", "run", "./train"});
  for (const char* part : {"completions: 4\n", "backoffLimit: 40\n", "PET_NNODES\n              value: \"2:4\"\n",
                           "PET_RDZV_ENDPOINT\n              value: \"reviews-0.reviews:29500\"\n",
                           R"(command: ["lockstep","run","./train"])"}) {
    EXPECT_TRUE(says(text, part)) << part << "\nin\n" << text;
  }
  EXPECT_FALSE(says(text, "PET_NODE_RANK") || says(text, "PET_MASTER_ADDR")) << text;
}

TEST(KubernetesCommand, GivesGpusRanksMemoryAndVolumes) {
  const std::string text =
      kubernetes_manifests({"--gpus-per-node", "8", "--memory", "64Gi", "--volume", "results:/results"}, {"./train"});
  for (const char* part :
       {"PET_NPROC_PER_NODE\n              value: \"8\"\n", "nvidia.com/gpu: \"8\"\n", "memory: \"64Gi\"\n",
        "mountPath: /dev/shm\n", "medium: Memory\n", "mountPath: \"/results\"\n", "claimName: \"results\"\n"}) {
    EXPECT_TRUE(says(text, part)) << part << "\nin\n" << text;
  }
}

TEST(KubernetesCommand, KeepsItsSecretToItself) {
  const TemporaryFolder folder;
  const std::string file = folder / "job.yaml";
  EXPECT_TRUE(
      says(run_well({"kubernetes", "--image", "i", "--file", file, "--", "./train"}), "kubectl apply -f " + file));
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_NE(read_file(file), kubernetes_manifests({}, {"./train"})) << "two jobs have one secret";
  const std::string kept = kubernetes_manifests({"--secret", "mine"}, {"./train"});
  EXPECT_FALSE(says(kept, "kind: Secret")) << kept;
  EXPECT_TRUE(says(kept, "name: \"mine\"\n                  key: secret\n")) << kept;
}

TEST(KubernetesCommand, RefusesWhatTheClusterWould) {
  const auto refused = [](const CommandWords& flags, const std::string& text) {
    CommandWords words{"kubernetes", "--image", "train:1"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "./t"});
    const ProgramEnd end = run_command(words);
    EXPECT_EQ(end.code, 2) << end.out;
    EXPECT_TRUE(says(end.err, text)) << end.err;
  };
  refused({"--nodes", "0"}, "--nodes is \"0\"");
  refused({"--nodes", "4:2"}, "write the smaller number first");
  refused({"--name", "My_Job"}, "--name is \"My_Job\"");
  refused({"--nproc-per-node", "3", "--gpus-per-node", "2"}, "a rank takes one GPU");
  refused({"--memory", "8GB"}, "as 8Gi");
  refused({"--cpus", "four"}, "--cpus is");
  refused({"--volume", "/results"}, "CLAIM:PATH");
  refused({"--port", "70000"}, "--port is");
  EXPECT_TRUE(says(run_command({"kubernetes", "--image", "i"}).err, "the program is missing"));
  EXPECT_TRUE(says(run_command({"kubernetes", "--", "./t"}).err, "--image is required"));
  EXPECT_TRUE(says(run_command({"kubernetes", "--image", "i", "--", "lockstep", "run"}).err,
                   "name the program that the launcher starts"));
}

// Puts `now` in place of `before` in what is written, and returns what --check says of it.
std::string findings_after(const CommandWords& flags, const std::string& before, const std::string& now) {
  const TemporaryFolder folder;
  std::string text = kubernetes_manifests(flags, {"./train"});
  const std::size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before << "\nin\n" << text;
  write_file_atomically(folder / "job.yaml", text.replace(at, before.size(), now));
  const ProgramEnd end = run_command({"kubernetes", "--check", folder / "job.yaml"});
  EXPECT_EQ(end.code, says(end.out, "nothing found") ? 0 : 1) << end.err;
  return end.out.substr(std::string(folder / "job.yaml").size());
}

TEST(KubernetesCheck, FindsNothingInWhatIsWritten) {
  for (const CommandWords& flags : {CommandWords{},
                                    {"--nodes", "3"},
                                    {"--nodes", "1:3"},
                                    {"--nodes", "2", "--gpus-per-node", "2", "--secret", "s"}}) {
    EXPECT_EQ(findings_after(flags, "kind", "kind"), ": nothing found\n");
  }
}

TEST(KubernetesCheck, NamesPodsThatDoNotMeet) {
  struct Fault {
    const char* before;
    const char* now;
    const char* finding;
  };
  const std::string two = "PET_NNODES\n              value: \"2\"", three = "PET_NNODES\n              value: \"3\"";
  for (const Fault& fault :
       {Fault{"completionMode: Indexed", "completionMode: NonIndexed", ":25: the pods have no index"},
        {"parallelism: 2", "parallelism: 1", ":27: 1 of 2 pods run at a time"},
        {"backoffLimit: 0", "backoffLimit: 4", "a pod that is replaced cannot join"},
        {"restartPolicy: Never", "restartPolicy: Always", "restartPolicy is Always"},
        {"subdomain: \"train\"", "subdomain: \"other\"", "the pods have no names in train"},
        {"clusterIP: None", "clusterIP: 10.0.0.1", ":15: this Service gives its pods no names"},
        {"publishNotReadyAddresses: true", "publishNotReadyAddresses: false", "pods that are not ready yet"},
        {"kind: Service", "kind: Ingress", "there is no Service train"},
        {two.c_str(), three.c_str(), "PET_NNODES is 3, but the Job has 2 pods"},
        {"PET_NNODES", "NNODES", "each pod would be a job of its own"},
        {"PET_NODE_RANK", "NODE_RANK", "every pod would call itself the same node"},
        {"train-0.train", "other-0.train", "other-0 is not the first pod"},
        {"PET_MASTER_ADDR", "MASTER_ADDR", "no pod knows where the first one is"},
        {"LOCKSTEP_SECRET", "SECRET", "there is no LOCKSTEP_SECRET"},
        {"kind: Job", "kind: CronJob", "there is no Job in it"}}) {
    const std::string found = findings_after({"--nodes", "2"}, fault.before, fault.now);
    EXPECT_TRUE(says(found, fault.finding)) << found;
    EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 1) << found;
  }
}

TEST(KubernetesCheck, SaysWhatItCannotRead) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "job.yaml", "kind: Job\n  x: [1\n");
  const ProgramEnd end = run_command({"kubernetes", "--check", folder / "job.yaml"});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(says(end.err, "it is not YAML")) << end.err;
  for (const char* text :
       {"", "a", "- 1\n- 2\n", "kind: Job\nspec: 3\n", "kind: Job\nspec: {template: {spec: {containers: [1]}}}\n"}) {
    write_file_atomically(folder / "job.yaml", text);
    EXPECT_EQ(run_command({"kubernetes", "--check", folder / "job.yaml"}).code, 1) << text;
  }
}

}  // namespace
}  // namespace lockstep
