"""The feature gates that a kubelet 1.36 knows, with their defaults; see ``feature_gates``."""

from __future__ import annotations

from typing import Final

# Stage and default, then the names. A locked gate cannot be set to another value.
GATES: Final = {
    "alpha off": """
        APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
        CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR
        ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
        CloudControllerManagerWebhook ContainerStopSignals
        ControllerManagerReleaseLeaderElectionLockOnExit CrossNamespaceVolumeDataSource
        DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus
        DRAWorkloadResourceClaims EventedPLEG GangScheduling GenericWorkload HPAScaleToZero
        ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LoggingAlphaOptions
        ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
        PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI
        PodLevelResourceManagers PodLogsQuerySplitStreams PodsAPI QOSReserved
        ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi ShardedListAndWatch
        StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
        TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
        UserNamespacesHostNetworkSupport VolumeLimitScaling WindowsCPUAndMemoryAffinity
        WorkloadAwarePreemption WorkloadWithJob
    """,
    "beta off": """
        ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
        CoordinatedLeaderElection DRADeviceTaintRules
        LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
        PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator
    """,
    "beta on": """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
        AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions
        CRDObservedGenerationTracking ClearingNominatedNodeNameAfterBinding
        ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz
        ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
        DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource
        DRAPartitionableDevices DRAResourceClaimDeviceStatus
        DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
        DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas
        DetectCacheInconsistency EnvFiles ExtendWebSocketsToKubelet GracefulNodeShutdown
        GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HostnameOverride
        InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
        InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax
        KubeletEnsureSecretPulledImages KubeletSeparateDiskGC
        KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
        LoggingBetaOptions MatchLabelKeysInPodTopologySpread
        MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePodResourcesForSuspendedJobs
        MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
        NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist
        PodDeletionCost PodLevelResources PodReadyToStartContainersCondition
        PodTopologyLabelsAdmission PortForwardWebsockets PreventStaticPodAPIReferences
        RelaxedServiceNameValidation ReloadKubeletClientCAFile
        ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus
        ResourceHealthStatusMessage RestartAllContainersOnContainerExits
        RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ
        ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
        StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
        StatefulSetSemanticRevisionComparison StorageVersionHash StrictIPCIDRValidation
        StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
        TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
        UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
        UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook WatchList
        WatchListClient WindowsGracefulNodeShutdown
    """,
    "ga on": """
        AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList
        InformerResourceVersion MutatingAdmissionPolicy
    """,
    "deprecated on": """
        DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods
        ServiceCIDRStatusFieldWiping StorageNamespaceIndex
    """,
    "deprecated off": """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
        ChangeContainerStatusOnKubeletRestart DeclarativeValidationTakeover KMSv1
        KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
    """,
    "locked on": """
        APIServerTracing AggregatedDiscoveryRemoveBetaType AnonymousAuthConfigurableEndpoints
        AnyVolumeDataSource AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache
        CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets
        ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess
        DeclarativeValidation DisableAllocatorDualWrite DisableNodeKubeProxyVersion
        DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner
        ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
        JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy
        KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI
        KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
        LogarithmicScaleDown MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator
        MutableCSINodeAllocatableCount NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread
        NodeLogQuery NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction
        PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness
        PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure
        RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
        ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy
        SELinuxMountReadWriteOncePod SchedulerQueueingHints SeparateTaintEvictionController
        ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
        ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
        SidecarContainers StreamingCollectionEncodingToJSON
        StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
        SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions
        UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay
    """,
    "locked off": """
        AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC
    """,
}

# A gate that is on needs these others to be on too.
DEPENDENCIES: Final = {
    "ClusterTrustBundleProjection": ("ClusterTrustBundle",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAResourceClaimGranularStatusAuthorization": ("DRAResourceClaimDeviceStatus",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "ExtendWebSocketsToKubelet": ("NodeDeclaredFeatures",),
    "GangScheduling": ("GenericWorkload",),
    "GracefulNodeShutdownBasedOnPodPriority": ("GracefulNodeShutdown",),
    "InPlacePodLevelResourcesVerticalScaling": (
        "NodeDeclaredFeatures",
        "PodLevelResources",
    ),
    "InPlacePodVerticalScalingInitContainers": ("NodeDeclaredFeatures",),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "PodLevelResourceManagers": ("PodLevelResources",),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
    "RestartAllContainersOnContainerExits": (
        "ContainerRestartRules",
        "NodeDeclaredFeatures",
    ),
    "StaleControllerConsistencyDaemonSet": ("AtomicFIFO",),
    "StaleControllerConsistencyJob": ("AtomicFIFO",),
    "StaleControllerConsistencyReplicaSet": ("AtomicFIFO",),
    "StaleControllerConsistencyStatefulSet": ("AtomicFIFO",),
    "StorageVersionAPI": ("APIServerIdentity",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "UnknownVersionInteroperabilityProxy": ("APIServerIdentity",),
    "UserNamespacesHostNetworkSupport": ("NodeDeclaredFeatures",),
    "WindowsGracefulNodeShutdown": ("GracefulNodeShutdown",),
    "WorkloadAwarePreemption": ("GangScheduling",),
    "WorkloadWithJob": ("GenericWorkload",),
}
