"""The keys of a KubeletConfiguration (v1beta1) that we do not use, so that they are accepted.

Together with the keys in ``kubelet_config`` these are all that the kubelet knows.
"""

from __future__ import annotations

from typing import Final

from numalign.core.settings import Version

_COMMON: Final = """
    address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot
    cgroupsPerQOS clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy
    containerLogMaxFiles containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval
    containerRuntimeEndpoint contentType crashLoopBackOff enableContentionProfiling
    enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers
    enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery eventBurst
    eventRecordQPS evictionMaxPodGracePeriod evictionMinimumReclaim
    evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod failCgroupV1
    failSwapOn fileCheckFrequency hairpinMode healthzBindAddress healthzPort httpCheckFrequency
    imageGCHighThresholdPercent imageGCLowThresholdPercent imageMaximumGCAge imageMinimumGCAge
    imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit
    iptablesMasqueradeBit kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeletCgroups
    localStorageCapacityIsolation logging makeIPTablesUtilChains maxOpenFiles
    maxParallelImagePulls memoryReservationPolicy memorySwap nodeLeaseDurationSeconds
    nodeStatusMaxImages nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podCIDR
    podLogsDir podPidsLimit port preloadedImagesVerificationAllowlist
    protectKernelDefaults providerID qosReserved readOnlyPort registerNode registerWithTaints
    registryBurst registryPullQPS resolvConf rotateCertificates runOnce runtimeRequestTimeout
    seccompDefault serializeImagePulls serverTLSBootstrap showHiddenMetricsForVersion
    shutdownGracePeriod shutdownGracePeriodByPodPriority shutdownGracePeriodCriticalPods
    singleProcessOOMKill staticPodPath staticPodURL staticPodURLHeader
    streamingConnectionIdleTimeout syncFrequency systemCgroups tlsCertFile tlsCipherSuites
    tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile tracing userNamespaces volumePluginDir
    volumeStatsAggPeriod
"""
_SINCE_1_37: Final = frozenset({"defaultPodSysctls"})


def unused_keys(version: Version) -> frozenset[str]:
    """The keys that a kubelet of this version reads and we pass over."""
    keys = frozenset(_COMMON.split())
    return keys if version is Version.V1_36 else keys | _SINCE_1_37
