"""The feature gates that a kubelet 1.37 knows, with their defaults; see ``feature_gates``."""

from __future__ import annotations

from typing import Final

# Stage and default, then the names. A locked gate cannot be set to another value.
GATES: Final = {
    "alpha off": """
        APIServerWebhookAuthenticationToken APIServingWithRoutine AtomicWriteVolumeUserFields
        CBORServingAndStorage CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth
        ClientsAllowCBOR ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
        CloudControllerManagerWebhook CompositePodGroup
        ConsistentListFromCacheSkipTimeoutFallback ContainerStopSignals
        ControllerManagerReleaseLeaderElectionLockOnExit CrossNamespaceVolumeDataSource
        DRADerivedAttributes DRADeviceCompatibilityGroups DRAListTypeAttributes
        DRANodeAllocatableResources DRAOptionalNodeOperations DRAPartitionableDevicesType
        DRAResourcePoolStatus DefaultPodSysctls EmptyDirVolumeMode EventedPLEG
        EvictionRequestAPI GRPCContainerProbeTLS H2CContainerProbe ImageVolumeWithDigest
        InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
        InPlacePodVerticalScalingMemoryBackedVolumes
        InPlacePodVerticalScalingSchedulerPreemption InterPodAffinityHostnameFastPath
        KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint LoggingAlphaOptions
        MutablePVNodeAffinity NodeLifecycleConditions PodGroupPreemptionPolicy
        PodLogsQuerySplitStreams QOSReserved ReduceDefaultCrashLoopBackOffDecay
        RuntimeClassInImageCriApi SchedulerPreQueueingHints ShardedListAndWatch
        StatefulSetRecreateStrategy StorageVersionAPI TaintTolerationComparisonOperators
        TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
        UserNamespacesHostNetworkSupport VolumeBindMountOptions WindowsCPUAndMemoryAffinity
        WorkloadWithJob
    """,
    "beta off": """
        CoordinatedLeaderElection DRAFractionalCapacityRange DRAWorkloadResourceClaims
        GenericWorkload LocalStorageCapacityIsolationFSQuotaMonitoring
        PodAndContainerStatsFromCRI PodLevelResourceManagers SchedulerAsyncAPICalls
    """,
    "beta on": """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth
        AllowUnsafeMalformedObjectDeletion AtomicFIFO
        AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions
        CRDObservedGenerationTracking ClearingNominatedNodeNameAfterBinding
        ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz
        ConcurrentWatchObjectDecode ConstrainedImpersonation ContainerCheckpoint
        ContainerRestartRules ContextualLogging DRAConsumableCapacity DRADeviceBindingConditions
        DRAPartitionableDevices DRAResourceClaimGranularStatusAuthorization
        DRASchedulerFilterTimeout DeclarativeValidationBeta
        DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles
        EtcdRangeStream ExcludeAdmissionWebhookVirtualResources ExtendWebSocketsToKubelet
        GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAGeneration
        HPAOptimizedSelectorStore HPAScaleToZero HugepageAwareEviction
        InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
        KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletInUserNamespace
        KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
        ListFromCacheSnapshot LoggingBetaOptions ManifestBasedAdmissionControlConfig
        MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
        MaxUnavailableStatefulSet MemoryQoS MutablePodResourcesForSuspendedJobs
        MutableSchedulingDirectivesForSuspendedJobs NFTablesNetlink NativeHistograms
        NodeControllerLeaseCircuitBreaker NominatedNodeNameForExpectation OpenAPIEnums
        OpportunisticBatching PersistentVolumeClaimUnusedSinceTime PodDeletionCost
        PodLevelResources PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass
        PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets ReloadKubeletClientCAFile
        ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus
        ResourceHealthStatusMessage RestartAllContainersOnContainerExits
        RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ
        ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA
        StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
        StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison
        StorageCapacityScoring StorageVersionHash StrictIPCIDRValidation
        StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
        TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
        UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
        UnlockWhileProcessingFIFO VolumeLimitScaling WatchList WatchListClient
        WatchListCompression WebhookRoundTripLoadBalancing WindowsGracefulNodeShutdown
    """,
    "ga on": """
        AllowServiceExternalIPs ClusterTrustBundle ClusterTrustBundleProjection
        CustomCPUCFSQuotaPeriod DRADeviceTaintRules DRADeviceTaints InformerResourceVersion
        MutatingAdmissionPolicy PodCertificateRequest SELinuxMount StorageVersionMigrator
    """,
    "deprecated on": """
        KubeProxyIPVS KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping
        StorageNamespaceIndex
    """,
    "deprecated off": """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
        ChangeContainerStatusOnKubeletRestart KMSv1 KubeletRegistrationGetOnExistsOnly
        WindowsHostNetwork
    """,
    "locked on": """
        AggregatedDiscoveryRemoveBetaType CPUManagerPolicyOptions CRDValidationRatcheting
        CSIServiceAccountTokenSecrets CustomResourceFieldSelectors DRAAdminAccess
        DRAExtendedResource DRAPrioritizedList DRAResourceClaimDeviceStatus
        DeclarativeValidation DisableAllocatorDualWrite DisableCPUQuotaWithExclusiveCPUs
        DisableNodeKubeProxyVersion DynamicResourceAllocation ExecProbeTimeout
        ExternalServiceAccountTokenSigner HPAConfigurableTolerance HostnameOverride
        ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
        InPlacePodVerticalScalingInitContainers JobManagedBy KubeletCgroupDriverFromCRI
        KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
        KubeletPodResourcesGet KubeletTracing MatchLabelKeysInPodAffinity
        MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode
        NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap
        PLEGOnDemandRelist PodObservedGenerationTracking PodReadyToStartContainersCondition
        PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType
        RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
        RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation SELinuxChangePolicy
        SELinuxMountReadWriteOncePod SeparateTaintEvictionController ServiceAccountTokenJTI
        ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
        ServiceAccountTokenPodNodeInfo SupplementalGroupsPolicy SystemdWatchdog
        TopologyManagerPolicyOptions UserNamespacesSupport VolumeAttributesClass
        WatchCacheInitializationPostStartHook WinDSR WinOverlay
    """,
    "locked off": """
        AllowOverwriteTerminationGracePeriodSeconds DeclarativeValidationTakeover
        GitRepoVolumeDriver SeparateCacheWatchRPC
    """,
}

# A gate that is on needs these others to be on too.
DEPENDENCIES: Final = {
    "ClusterTrustBundleProjection": ("ClusterTrustBundle",),
    "CompositePodGroup": (
        "GenericWorkload",
        "TopologyAwareWorkloadScheduling",
    ),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRAPartitionableDevicesType": (
        "DRAPartitionableDevices",
        "DRAResourcePoolStatus",
    ),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "GracefulNodeShutdownBasedOnPodPriority": ("GracefulNodeShutdown",),
    "InPlacePodLevelResourcesVerticalScaling": ("PodLevelResources",),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "NodeControllerLeaseCircuitBreaker": ("AtomicFIFO",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "PodLevelResourceManagers": ("PodLevelResources",),
    "PodLevelResourcesFixDefaulting": ("PodLevelResources",),
    "PodLevelResourcesFixKubeletQOSClass": ("PodLevelResources",),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
    "RestartAllContainersOnContainerExits": ("ContainerRestartRules",),
    "StaleControllerConsistencyDaemonSet": ("AtomicFIFO",),
    "StaleControllerConsistencyHPA": ("AtomicFIFO",),
    "StaleControllerConsistencyJob": ("AtomicFIFO",),
    "StaleControllerConsistencyReplicaSet": ("AtomicFIFO",),
    "StaleControllerConsistencyStatefulSet": ("AtomicFIFO",),
    "StorageVersionAPI": ("APIServerIdentity",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "UnknownVersionInteroperabilityProxy": ("APIServerIdentity",),
    "WindowsGracefulNodeShutdown": ("GracefulNodeShutdown",),
    "WorkloadWithJob": ("GenericWorkload",),
}
