// podresources asks a PodResources server through the official generated client and prints JSON.
//
//	podresources SOCKET list | allocatable | get NAMESPACE NAME | list-v1alpha1 | burst COUNT
//
// A refusal is printed as {"code": ..., "message": ...}; burst prints how many of COUNT calls at once
// had which end.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

func main() {
	c, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client := v1.NewPodResourcesListerClient(c)
	var answer proto.Message
	switch os.Args[2] {
	case "list":
		answer, err = client.List(ctx, &v1.ListPodResourcesRequest{})
	case "allocatable":
		answer, err = client.GetAllocatableResources(ctx, &v1.AllocatableResourcesRequest{})
	case "get":
		answer, err = client.Get(ctx, &v1.GetPodResourcesRequest{PodNamespace: os.Args[3], PodName: os.Args[4]})
	case "list-v1alpha1":
		answer, err = v1alpha1.NewPodResourcesListerClient(c).List(ctx, &v1alpha1.ListPodResourcesRequest{})
	case "burst":
		burst(ctx, client)
		return
	default:
		panic("unknown call " + os.Args[2])
	}
	if err != nil {
		s := status.Convert(err)
		print(map[string]any{"code": s.Code().String(), "message": s.Message()})
		return
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(answer)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func burst(ctx context.Context, client v1.PodResourcesListerClient) {
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	if _, err := client.GetAllocatableResources(ctx, &v1.AllocatableResourcesRequest{}); err != nil {
		panic(err)
	}
	ends := make(chan string)
	for range count {
		go func() {
			_, err := client.List(ctx, &v1.ListPodResourcesRequest{})
			s := status.Convert(err)
			ends <- s.Code().String() + ": " + s.Message()
		}()
	}
	tally := map[string]int{}
	for range count {
		tally[<-ends]++
	}
	print(tally)
}

func print(what any) {
	if err := json.NewEncoder(os.Stdout).Encode(what); err != nil {
		panic(err)
	}
}
